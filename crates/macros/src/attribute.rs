//! Parses attributes: `#[tool(..)]` on functions and blocks, `#[param(..)]` and
//! `#[inject]` on parameters. Their meaning is decided in [`crate::function`]
//! and [`crate::parameter`].

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, LitBool, LitStr, Meta, Path, Result, Token};

use crate::reliability::{self, CacheOption, Retry, SafeWhen};
use crate::text;

/// `#[tool(..)]` on a function or a method.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) read_only: Option<bool>,
    pub(crate) concurrency_safe: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) group: Option<LitStr>,
    pub(crate) category: Option<LitStr>,
    pub(crate) writes: Option<Vec<LitStr>>,
    pub(crate) retry: Option<Retry>,
    pub(crate) cache: Option<CacheOption>,
    pub(crate) safe_when: Option<Vec<SafeWhen>>,
    /// Span of `inline`.
    pub(crate) inline: Option<Span>,
    pub(crate) root: Option<Path>,
}

impl ToolOptions {
    pub(crate) fn parse(keys: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.read(&meta)).parse2(keys)?;
        Ok(options)
    }

    /// Parses the `#[tool]` attribute of a method.
    pub(crate) fn from_attribute(attribute: &Attribute) -> Result<Self> {
        match &attribute.meta {
            Meta::Path(_) => Ok(Self::default()),
            Meta::List(list) => Self::parse(list.tokens.clone()),
            Meta::NameValue(_) => Err(Error::new(attribute.span(), "write `#[tool(key = value)]`")),
        }
    }

    /// Inherits the options of the block.
    pub(crate) fn inheriting(mut self, block: &BlockOptions) -> Self {
        for (own, shared) in
            [(&mut self.group, &block.group), (&mut self.category, &block.category)]
        {
            if own.is_none() {
                own.clone_from(shared);
            }
        }
        if self.root.is_none() {
            self.root.clone_from(&block.root);
        }
        self
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key(meta).as_str() {
            "name" => once(&mut self.name, meta, value),
            "description" => once(&mut self.description, meta, value),
            "read_only" => once(&mut self.read_only, meta, flag),
            "concurrency_safe" => once(&mut self.concurrency_safe, meta, flag),
            "idempotent" => once(&mut self.idempotent, meta, flag),
            "destructive" => once(&mut self.destructive, meta, flag),
            "timeout" => once(&mut self.timeout, meta, duration),
            "group" => once(&mut self.group, meta, value),
            "category" => once(&mut self.category, meta, value),
            "writes" => once(&mut self.writes, meta, reliability::writes),
            "retry" => once(&mut self.retry, meta, Retry::read),
            "cache" => once(&mut self.cache, meta, CacheOption::read),
            "safe_when" => once(&mut self.safe_when, meta, SafeWhen::read),
            "inline" => once(&mut self.inline, meta, |meta| Ok(meta.path.span())),
            "crate" => once(&mut self.root, meta, path),
            "prefix" => Err(meta.error("`prefix` belongs on the impl block")),
            unknown => Err(meta.error(format!(
                "unknown key `{unknown}`; there are name, description, read_only, \
                 concurrency_safe, idempotent, destructive, timeout, group, category, writes, \
                 retry, cache, safe_when, inline and crate"
            ))),
        }
    }
}

/// `#[tool(..)]` on an impl block.
#[derive(Default)]
pub(crate) struct BlockOptions {
    pub(crate) prefix: Option<LitStr>,
    pub(crate) group: Option<LitStr>,
    pub(crate) category: Option<LitStr>,
    pub(crate) root: Option<Path>,
}

impl BlockOptions {
    pub(crate) fn parse(keys: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| match key(&meta).as_str() {
            "prefix" => once(&mut options.prefix, &meta, value),
            "group" => once(&mut options.group, &meta, value),
            "category" => once(&mut options.category, &meta, value),
            "crate" => once(&mut options.root, &meta, path),
            unknown => Err(meta.error(format!(
                "unknown key `{unknown}`; an impl block takes prefix, group, category and crate, \
                 the rest belongs on its methods"
            ))),
        });
        parser.parse2(keys)?;
        Ok(options)
    }
}

/// Attributes of one parameter.
#[derive(Default)]
pub(crate) struct ParameterOptions {
    pub(crate) name: Option<LitStr>,
    /// The doc comment, unless `description` says otherwise.
    pub(crate) description: Option<String>,
    pub(crate) default: Option<DefaultValue>,
    /// Span of `#[inject]`.
    pub(crate) inject: Option<Span>,
}

/// `default` or `default = …`.
pub(crate) enum DefaultValue {
    OfType,
    Written(Expr),
}

impl ParameterOptions {
    /// Removes our attributes from a parameter and parses them.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let doc = text::doc_comment(attributes);
        let ours = ["doc", "param", "inject"];
        let taken: Vec<Attribute> = attributes
            .extract_if(.., |attribute| ours.iter().any(|name| attribute.path().is_ident(name)))
            .collect();
        let mut options = Self::default();
        let mut description: Option<LitStr> = None;
        for attribute in &taken {
            if attribute.path().is_ident("inject") {
                attribute.meta.require_path_only()?;
                options.inject = Some(attribute.span());
            } else if attribute.path().is_ident("param") {
                attribute.parse_nested_meta(|meta| match key(&meta).as_str() {
                    "name" => once(&mut options.name, &meta, value),
                    "description" => once(&mut description, &meta, value),
                    "default" => once(&mut options.default, &meta, default_value),
                    unknown => Err(meta.error(format!(
                        "unknown key `{unknown}`; there are name, description and default"
                    ))),
                })?;
            }
        }
        options.description = description.map(|text| text.value()).or(doc);
        Ok(options)
    }
}

/// The name of a key; empty for a path of several segments.
pub(crate) fn key(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

/// Parses the value of a key that may be given once.
pub(crate) fn once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    read: impl FnOnce(&ParseNestedMeta<'_>) -> Result<T>,
) -> Result<()> {
    match slot.replace(read(meta)?) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is given twice", key(meta)))),
    }
}

pub(crate) fn value<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    meta.value()?.parse()
}

/// `read_only` or `read_only = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if meta.input.peek(Token![=]) { Ok(value::<LitBool>(meta)?.value) } else { Ok(true) }
}

pub(crate) fn duration(meta: &ParseNestedMeta<'_>) -> Result<Duration> {
    let written: LitStr = value(meta)?;
    text::parse_duration(&written.value()).map_err(|why| Error::new(written.span(), why))
}

fn path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    value::<LitStr>(meta)?.parse_with(Path::parse_mod_style)
}

fn default_value(meta: &ParseNestedMeta<'_>) -> Result<DefaultValue> {
    if meta.input.peek(Token![=]) {
        value(meta).map(DefaultValue::Written)
    } else {
        Ok(DefaultValue::OfType)
    }
}
