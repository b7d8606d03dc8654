//! The options `writes`, `retry`, `cache` and `safe_when` of `#[tool(..)]`, as
//! in YAML definitions.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprArray, ExprLit, ExprUnary, Lit, LitStr, Path, Result, Token, UnOp};

use crate::attribute::{duration, key, once, value};
use crate::function::Errors;
use crate::parameter::Argument;

const DEFAULT_CACHE: Duration = Duration::from_secs(300);

/// `retry = 3`, or `retry(attempts = 3, backoff = "1s")`.
#[derive(Default)]
pub(crate) struct Retry {
    attempts: Option<u32>,
    backoff: Option<Duration>,
    multiplier: Option<f64>,
    max_backoff: Option<Duration>,
}

/// `cache`, or `cache = "10m"`.
pub(crate) struct CacheOption {
    keep: Duration,
    at: Span,
}

/// One parameter of `safe_when(action = ["load", "list"])`.
pub(crate) struct SafeWhen {
    parameter: String,
    at: Span,
    values: Vec<Expr>,
}

/// `writes = "notes"`, or `writes = ["notes", "memory:{user_id}"]`.
pub(crate) fn writes(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let written = meta.value()?;
    let texts: Vec<LitStr> = if written.peek(syn::token::Bracket) {
        let list;
        syn::bracketed!(list in written);
        Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?.into_iter().collect()
    } else {
        vec![written.parse()?]
    };
    for text in &texts {
        check_resource(&text.value()).map_err(|why| Error::new(text.span(), why))?;
    }
    if texts.is_empty() {
        return Err(meta.error("`writes` names what the tool changes, such as [\"notes\"]"));
    }
    Ok(texts)
}

/// Checks that braces around parameter names are balanced.
fn check_resource(text: &str) -> std::result::Result<(), String> {
    if text.trim().is_empty() {
        return Err("`writes` has an empty name".to_owned());
    }
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let wrong = || format!("`{text}`: write a parameter in braces, such as memory:{{user_id}}");
        let (name, after) = after.split_once('}').ok_or_else(wrong)?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err(wrong());
        }
        rest = after;
    }
    match rest.contains('}') {
        true => Err(format!("`{text}` has a brace that nothing opens")),
        false => Ok(()),
    }
}

impl Retry {
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut retry = Self::default();
        if meta.input.peek(Token![=]) {
            retry.attempts = Some(attempts(meta)?);
            return Ok(retry);
        }
        if !meta.input.peek(syn::token::Paren) {
            return Err(meta.error("write `retry = 3`, or `retry(attempts = 3, backoff = \"1s\")`"));
        }
        meta.parse_nested_meta(|own| match key(&own).as_str() {
            "attempts" => once(&mut retry.attempts, &own, attempts),
            "backoff" => once(&mut retry.backoff, &own, duration),
            "max_backoff" => once(&mut retry.max_backoff, &own, duration),
            "multiplier" => once(&mut retry.multiplier, &own, multiplier),
            unknown => Err(own.error(format!(
                "unknown key `{unknown}`; `retry` has attempts, backoff, multiplier and max_backoff"
            ))),
        })?;
        Ok(retry)
    }

    pub(crate) fn setting(&self, root: &Path) -> TokenStream {
        // The engine knows how many are allowed; more do not compile.
        let attempts = self
            .attempts
            .map(|attempts| quote!(attempts: const { #root::__private::attempts(#attempts) },));
        let multiplier = self.multiplier.map(|multiplier| quote!(multiplier: #multiplier,));
        let backoff = self.backoff.map(span).map(|span| quote!(backoff: #span,));
        let max_backoff = self.max_backoff.map(span).map(|span| quote!(max_backoff: #span,));
        let given = [&attempts, &backoff, &multiplier, &max_backoff];
        // If all fields are given, the compiler would warn about a needless
        // update.
        let rest = given
            .iter()
            .any(|field| field.is_none())
            .then(|| quote!(..::core::default::Default::default()));
        quote! {
            __spec.retry = ::core::option::Option::Some(#root::RetryPolicy {
                #attempts #backoff #multiplier #max_backoff #rest
            });
        }
    }
}

fn attempts(meta: &ParseNestedMeta<'_>) -> Result<u32> {
    let written: syn::LitInt = value(meta)?;
    match written.base10_parse() {
        Ok(attempts @ 1..) => Ok(attempts),
        _ => {
            let why = "at least 1 attempt, which means that it is tried once";
            Err(Error::new(written.span(), why))
        }
    }
}

fn multiplier(meta: &ParseNestedMeta<'_>) -> Result<f64> {
    let written: Lit = value(meta)?;
    let number = match &written {
        Lit::Int(number) => number.base10_parse().ok(),
        Lit::Float(number) => number.base10_parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (1.0..=100.0).contains(number))
        .ok_or_else(|| Error::new(written.span(), "`multiplier` is a number from 1 to 100"))
}

impl CacheOption {
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let at = meta.path.span();
        let keep = match meta.input.peek(Token![=]) {
            true => duration(meta)?,
            false => DEFAULT_CACHE,
        };
        Ok(Self { keep, at })
    }

    /// Rejects it on a tool that is not read-only.
    pub(crate) fn check(&self, read_only: Option<bool>) -> Result<()> {
        match read_only {
            Some(true) => Ok(()),
            _ => Err(Error::new(self.at, "`cache` needs a tool that is `read_only`")),
        }
    }

    pub(crate) fn setting(&self) -> TokenStream {
        let keep = span(self.keep);
        quote!(__spec.cache = ::core::option::Option::Some(#keep);)
    }
}

impl SafeWhen {
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        if !meta.input.peek(syn::token::Paren) {
            return Err(meta.error("write `safe_when(action = [\"load\", \"list\"])`"));
        }
        meta.parse_nested_meta(|own| {
            let parameter = key(&own);
            if all.iter().any(|other| other.parameter == parameter) {
                return Err(own.error(format!("`{parameter}` is given twice")));
            }
            let values: ExprArray = value(&own)?;
            if values.elems.is_empty() {
                return Err(Error::new(values.span(), "with which values is it safe?"));
            }
            if let Some(wrong) = values.elems.iter().find(|value| !is_literal(value)) {
                return Err(Error::new(wrong.span(), "a text, a number, true or false"));
            }
            all.push(Self {
                parameter,
                at: own.path.span(),
                values: values.elems.into_iter().collect(),
            });
            Ok(())
        })?;
        Ok(all)
    }

    /// Rejects an unknown parameter.
    pub(crate) fn check<'a>(
        all: &[Self],
        arguments: &(impl Iterator<Item = &'a Argument> + Clone),
        errors: &mut Errors,
    ) {
        for one in all {
            if !arguments.clone().any(|argument| argument.name == one.parameter) {
                let why = format!("the function has no parameter `{}`", one.parameter);
                errors.add(Error::new(one.at, why));
            }
        }
    }

    pub(crate) fn setting(&self, root: &Path) -> TokenStream {
        let Self { parameter, values, .. } = self;
        quote! {
            __spec.safe_when.insert(
                ::std::string::String::from(#parameter),
                ::std::vec![#(#root::__private::serde_json::Value::from(#values)),*],
            );
        }
    }
}

/// Whether a literal has a JSON value.
fn is_literal(value: &Expr) -> bool {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(_) | Lit::Int(_) | Lit::Float(_) | Lit::Bool(_),
            ..
        }) => true,
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => is_literal(expr),
        _ => false,
    }
}

fn span(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}
