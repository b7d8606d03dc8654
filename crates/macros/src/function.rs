//! A function that has been checked: its tool can be built without asking the
//! signature again.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, Pat, PatIdent, PatType, Path, Receiver,
    Result, ReturnType, Signature, Type, parse_quote,
};

use crate::attribute::{DefaultValue, ParameterOptions, ToolOptions};
use crate::text;

/// A function or method that becomes a tool.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) description: TokenStream,
    pub(crate) options: ToolOptions,
    pub(crate) root: Path,
    pub(crate) run: Run,
    /// How to name the function in a call.
    pub(crate) callee: TokenStream,
    pub(crate) takes_self: bool,
    pub(crate) parameters: Vec<Parameter>,
    /// Where the return type stands.
    pub(crate) returned: Span,
}

/// Where a function stands.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Free,
    Method { owner: &'a Type, prefix: &'a str },
}

/// How a function is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    Async,
    /// On a thread for blocking work.
    Blocking,
    /// In place.
    Inline,
}

/// A parameter, by who fills it.
pub(crate) enum Parameter {
    Argument(Argument),
    Injected(Injected),
    /// The call itself.
    Call,
}

/// A parameter that the model fills.
pub(crate) struct Argument {
    pub(crate) field: Ident,
    pub(crate) name: String,
    pub(crate) ty: TokenStream,
    pub(crate) description: Option<String>,
    /// An expression of the parameter's type.
    pub(crate) default: Option<TokenStream>,
}

/// A parameter that the engine fills.
pub(crate) struct Injected {
    pub(crate) name: String,
    pub(crate) ty: TokenStream,
    pub(crate) description: Option<String>,
    pub(crate) source: Source,
}

/// What an injected parameter is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Context,
    Secret,
    OptionalSecret,
}

/// Stands for `Self` in generated items, which do not know it.
pub(crate) const OWNER: &str = "__Owner";

impl Function {
    /// Checks a function and takes our attributes off its parameters, also
    /// when the check fails.
    pub(crate) fn read(
        attributes: &[Attribute],
        signature: &mut Signature,
        options: Result<ToolOptions>,
        place: Place<'_>,
    ) -> Result<Self> {
        let mut errors = Errors::default();
        let options = errors.keep(options).unwrap_or_default();
        check_signature(signature, &mut errors);
        let run = errors.keep(run(signature, &options)).unwrap_or(Run::Async);
        let mut takes_self = false;
        let mut parameters = Vec::new();
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    takes_self = true;
                    errors.keep(check_receiver(receiver, place));
                }
                FnArg::Typed(typed) => parameters.extend(errors.keep(parameter(typed, run))),
            }
        }
        errors.keep(check_names(&parameters, signature));
        let name = errors.keep(tool_name(&signature.ident, &options, place)).unwrap_or_default();
        let description = errors.keep(description(attributes, &signature.ident, &options));
        let ident = &signature.ident;
        let callee = match place {
            Place::Free => ident.to_token_stream(),
            Place::Method { owner, .. } => quote!(<#owner>::#ident),
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
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(argument),
            _ => None,
        })
    }

    pub(crate) fn injected(&self) -> impl Iterator<Item = &Injected> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Injected(injected) => Some(injected),
            _ => None,
        })
    }
}

/// Errors that are told together.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value; an error is kept for later.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// The value, if nothing went wrong on the way to it.
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

fn run(signature: &Signature, options: &ToolOptions) -> Result<Run> {
    match (signature.asyncness, options.inline) {
        (Some(_), Some(inline)) => {
            Err(Error::new(inline, "an async function always runs in place: leave `inline` out"))
        }
        (Some(_), None) => Ok(Run::Async),
        (None, Some(_)) => Ok(Run::Inline),
        (None, None) => Ok(Run::Blocking),
    }
}

fn check_receiver(receiver: &Receiver, place: Place<'_>) -> Result<()> {
    let why = match (place, &*receiver.ty) {
        (Place::Free, _) => "write `#[tool]` on the impl block too: it makes tools of methods",
        (_, Type::Reference(to)) if to.mutability.is_none() && is_named(&to.elem, "Self") => {
            return Ok(());
        }
        _ => "calls share the object and may run at the same time: take `&self`",
    };
    Err(Error::new_spanned(receiver, why))
}

fn tool_name(ident: &Ident, options: &ToolOptions, place: Place<'_>) -> Result<String> {
    let (own, span) = match &options.name {
        Some(name) => (name.value(), name.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    let name = match place {
        Place::Free => own,
        Place::Method { prefix, .. } => format!("{prefix}{own}"),
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

fn parameter(typed: &mut PatType, run: Run) -> Result<Parameter> {
    let options = ParameterOptions::take(&mut typed.attrs)?;
    if let Some(cfg) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        return Err(Error::new_spanned(cfg, "a tool's parameters cannot depend on `cfg`"));
    }
    let Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) = &*typed.pat else {
        let why = "a tool's parameter needs a plain name: the model reads it";
        return Err(Error::new_spanned(&typed.pat, why));
    };
    let ty = &*typed.ty;
    match plain(ty) {
        Type::Reference(reference)
            if reference.mutability.is_none() && is_named(&reference.elem, "Call") =>
        {
            if run == Run::Blocking {
                let why = "this function runs on another thread, where `&Call` cannot go: make \
                           it async, or mark it `#[tool(inline)]` if it is quick";
                return Err(Error::new_spanned(ty, why));
            }
            return Ok(Parameter::Call);
        }
        Type::Reference(_) => {
            let why = "a tool owns its parameters: take `String` instead of `&str`, `Vec<T>` \
                       instead of `&[T]`; only `&Call` is borrowed";
            return Err(Error::new_spanned(ty, why));
        }
        Type::ImplTrait(_) => {
            let why = "a tool's parameter needs a type of its own: its schema depends on it";
            return Err(Error::new_spanned(ty, why));
        }
        _ => {}
    }
    let name = match &options.name {
        Some(name) => name.value(),
        None => ident.unraw().to_string(),
    };
    let source = source(ty).or(options.inject.map(|_| Source::Context));
    if let Some(source) = source {
        if options.default.is_some() {
            return Err(Error::new(ident.span(), "an injected parameter has no default"));
        }
        let ty = without_self(ty.to_token_stream());
        let description = options.description;
        return Ok(Parameter::Injected(Injected { name, ty, description, source }));
    }
    Ok(Parameter::Argument(Argument {
        field: ident.clone(),
        name,
        default: options.default.map(|default| default_of(default, ty)),
        ty: without_self(ty.to_token_stream()),
        description: options.description,
    }))
}

fn check_names(parameters: &[Parameter], signature: &Signature) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for parameter in parameters {
        let name = match parameter {
            Parameter::Argument(argument) => &argument.name,
            Parameter::Injected(injected) if injected.source != Source::Context => &injected.name,
            _ => continue,
        };
        if seen.contains(&name.as_str()) {
            let why = format!("two parameters have the name `{name}`");
            return Err(Error::new_spanned(&signature.inputs, why));
        }
        seen.push(name);
    }
    Ok(())
}

/// What an injected parameter is, told from its type; nothing for a parameter
/// that the model fills.
fn source(ty: &Type) -> Option<Source> {
    let (name, inside) = last_segment(ty)?;
    match (name.to_string().as_str(), inside) {
        ("Inject" | "Emitter" | "CallId", _) => Some(Source::Context),
        ("Arc", Some(inside)) if is_named(inside, "Agent") => Some(Source::Context),
        ("Secret", None) => Some(Source::Secret),
        ("Option", Some(inside)) => source(inside).map(|source| match source {
            Source::Secret => Source::OptionalSecret,
            other => other,
        }),
        _ => None,
    }
}

/// The default as an expression of the parameter's type. A literal text
/// becomes what the parameter needs, and the default of an `Option<T>` is
/// written as a `T`.
fn default_of(default: DefaultValue, ty: &Type) -> TokenStream {
    let value = match default {
        DefaultValue::OfType => return quote!(::core::default::Default::default()),
        DefaultValue::Written(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
            quote!(::core::convert::Into::into(#text))
        }
        DefaultValue::Written(value) => without_self(value.to_token_stream()),
    };
    let is_option = last_segment(ty).is_some_and(|(name, _)| name == "Option");
    if is_option { quote!(::core::option::Option::Some(#value)) } else { value }
}

/// The last name in a type's path, and its type argument if it has just one.
fn last_segment(ty: &Type) -> Option<(&Ident, Option<&Type>)> {
    let Type::Path(path) = plain(ty) else { return None };
    let last = path.path.segments.last()?;
    let inside = match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(syn::GenericArgument::Type(inside)) if arguments.args.len() == 1 => Some(inside),
            _ => None,
        },
        _ => None,
    };
    Some((&last.ident, inside))
}

fn is_named(ty: &Type, name: &str) -> bool {
    last_segment(ty).is_some_and(|(own, _)| own == name)
}

/// A type without the parentheses and invisible groups around it.
fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

/// The same code with [`OWNER`] in place of `Self`.
fn without_self(code: TokenStream) -> TokenStream {
    use proc_macro2::{Group, TokenTree};
    code.into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                TokenTree::Ident(Ident::new(OWNER, ident.span()))
            }
            TokenTree::Group(group) => {
                let mut replaced = Group::new(group.delimiter(), without_self(group.stream()));
                replaced.set_span(group.span());
                TokenTree::Group(replaced)
            }
            other => other,
        })
        .collect()
}
