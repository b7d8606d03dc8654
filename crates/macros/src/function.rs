//! A checked function, from which code can be generated without looking at the
//! signature again.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, Path, Receiver, Result, ReturnType, Signature, Type,
    parse_quote,
};

use crate::attribute::ToolOptions;
use crate::parameter::{self, Argument, InjectedParameter, ToolParameter, is_named, plain};
use crate::reliability::SafeWhen;
use crate::text;

/// A function or method that becomes a tool.
pub(crate) struct ToolFunction {
    pub(crate) name: String,
    pub(crate) description: TokenStream,
    pub(crate) options: ToolOptions,
    pub(crate) root: Path,
    pub(crate) run: RunMode,
    /// Path for calling the function.
    pub(crate) callee: TokenStream,
    pub(crate) takes_self: bool,
    pub(crate) parameters: Vec<ToolParameter>,
    /// Span of the return type.
    pub(crate) returned: Span,
}

/// Whether a function is free, or a method of a block.
#[derive(Clone, Copy)]
pub(crate) enum FunctionPlace<'a> {
    Free,
    Method { owner: &'a Type, prefix: &'a str },
}

/// How a function is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMode {
    Async,
    /// On a thread for blocking work.
    Blocking,
    /// Inline, on the caller's thread.
    Inline,
}

impl ToolFunction {
    /// Checks a function and removes our attributes from its parameters, even
    /// if the check fails.
    pub(crate) fn read(
        attributes: &[Attribute],
        signature: &mut Signature,
        options: Result<ToolOptions>,
        place: FunctionPlace<'_>,
    ) -> Result<Self> {
        let mut errors = Errors::default();
        let options = errors.keep(options).unwrap_or_default();
        check_signature(signature, &mut errors);
        let run = errors.keep(run(signature, &options)).unwrap_or(RunMode::Async);
        let mut takes_self = false;
        let mut parameters = Vec::new();
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    takes_self = true;
                    errors.keep(check_receiver(receiver, place));
                }
                FnArg::Typed(typed) => parameters.extend(errors.keep(parameter::read(typed, run))),
            }
        }
        errors.keep(parameter::check_names(&parameters, signature));
        if let Some(cache) = &options.cache {
            errors.keep(cache.check(options.read_only));
        }
        let safe_when = options.safe_when.as_deref().unwrap_or_default();
        SafeWhen::check(safe_when, &arguments(&parameters), &mut errors);
        let name = errors.keep(tool_name(&signature.ident, &options, place)).unwrap_or_default();
        let description = errors.keep(description(attributes, &signature.ident, &options));
        let ident = &signature.ident;
        let callee = match place {
            FunctionPlace::Free => ident.to_token_stream(),
            FunctionPlace::Method { owner, .. } => quote!(<#owner>::#ident),
        };
        let root = options.root.clone().unwrap_or_else(|| parse_quote!(::windlass));
        let returned = match &signature.output {
            ReturnType::Default => ident.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let description = description.unwrap_or_default();
        errors.finish(Self {
            name,
            description,
            options,
            root,
            run,
            callee,
            takes_self,
            parameters,
            returned,
        })
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        arguments(&self.parameters)
    }

    pub(crate) fn injected(&self) -> impl Iterator<Item = &InjectedParameter> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            ToolParameter::InjectedParameter(injected) => Some(injected),
            _ => None,
        })
    }
}

fn arguments(parameters: &[ToolParameter]) -> impl Iterator<Item = &Argument> + Clone {
    parameters.iter().filter_map(|parameter| match parameter {
        ToolParameter::Argument(argument) => Some(argument),
        _ => None,
    })
}

/// Collected errors, reported together.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value; an error is collected.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// The value, or the collected errors.
    pub(crate) fn finish<T>(self, value: T) -> Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

fn check_signature(signature: &Signature, errors: &mut Errors) {
    let mut refuse = |wrong: Option<&dyn ToTokens>, why: &str| {
        if let Some(wrong) = wrong {
            errors.add(Error::new_spanned(wrong, why));
        }
    };
    let generics = &signature.generics;
    refuse(signature.unsafety.as_ref().map(|x| x as _), "a tool cannot be unsafe");
    refuse(signature.constness.as_ref().map(|x| x as _), "a tool cannot be const");
    refuse(signature.abi.as_ref().map(|x| x as _), "a tool is a Rust function");
    refuse(signature.variadic.as_ref().map(|x| x as _), "a tool is a Rust function");
    let generic = "a tool cannot be generic: its schema needs the types";
    refuse((!generics.params.is_empty()).then_some(&generics.params as _), generic);
    refuse(generics.where_clause.as_ref().map(|x| x as _), generic);
    let borrowed = match &signature.output {
        ReturnType::Type(_, ty) => match plain(ty) {
            Type::Reference(reference) => {
                let lifetime = reference.lifetime.as_ref();
                lifetime.is_none_or(|lifetime| lifetime.ident != "static").then_some(reference)
            }
            _ => None,
        },
        ReturnType::Default => None,
    };
    refuse(borrowed.map(|x| x as _), "a tool returns an owned value, such as `String`");
}

fn run(signature: &Signature, options: &ToolOptions) -> Result<RunMode> {
    match (signature.asyncness, options.inline) {
        (Some(_), Some(inline)) => {
            Err(Error::new(inline, "an async function always runs in place: leave `inline` out"))
        }
        (Some(_), None) => Ok(RunMode::Async),
        (None, Some(_)) => Ok(RunMode::Inline),
        (None, None) => Ok(RunMode::Blocking),
    }
}

fn check_receiver(receiver: &Receiver, place: FunctionPlace<'_>) -> Result<()> {
    let why = match (place, &*receiver.ty) {
        (FunctionPlace::Free, _) => {
            "write `#[tool]` on the impl block too: it makes tools of methods"
        }
        (_, Type::Reference(to)) if to.mutability.is_none() && is_named(&to.elem, "Self") => {
            return Ok(());
        }
        _ => "calls share the object and may run at the same time: take `&self`",
    };
    Err(Error::new_spanned(receiver, why))
}

fn tool_name(ident: &Ident, options: &ToolOptions, place: FunctionPlace<'_>) -> Result<String> {
    let (own, span) = match &options.name {
        Some(name) => (name.value(), name.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    let name = match place {
        FunctionPlace::Free => own,
        FunctionPlace::Method { prefix, .. } => format!("{prefix}{own}"),
    };
    text::check_tool_name(&name).map(|()| name).map_err(|why| Error::new(span, why))
}

fn description(
    attributes: &[Attribute],
    ident: &Ident,
    options: &ToolOptions,
) -> Result<TokenStream> {
    match (&options.description, text::doc_comment(attributes)) {
        (Some(given), _) => Ok(given.to_token_stream()),
        (None, Some(doc)) => Ok(doc.to_token_stream()),
        (None, None) => {
            Err(Error::new(ident.span(), "a tool needs a description: write a doc comment"))
        }
    }
}
