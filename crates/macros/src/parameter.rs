//! Parameters of a function, by who fills them.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Error, Expr, ExprLit, Ident, Lit, Pat, PatIdent, PatType, Result, Signature, Type};

use crate::attribute::{DefaultValue, ParameterOptions};
use crate::function::RunMode;

/// A parameter, by who fills it.
pub(crate) enum ToolParameter {
    Argument(Argument),
    InjectedParameter(InjectedParameter),
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
pub(crate) struct InjectedParameter {
    pub(crate) name: String,
    pub(crate) ty: TokenStream,
    pub(crate) description: Option<String>,
    pub(crate) source: InjectSource,
}

/// Kind of an injected parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectSource {
    Context,
    Secret,
    OptionalSecret,
}

/// Replaces `Self` in generated items, where it is not available.
pub(crate) const OWNER: &str = "__Owner";

/// Checks a parameter and removes our attributes.
pub(crate) fn read(typed: &mut PatType, run: RunMode) -> Result<ToolParameter> {
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
            if run == RunMode::Blocking {
                let why = "this function runs on another thread, where `&Call` cannot go: make \
                           it async, or mark it `#[tool(inline)]` if it is quick";
                return Err(Error::new_spanned(ty, why));
            }
            return Ok(ToolParameter::Call);
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
    let source = source(ty).or(options.inject.map(|_| InjectSource::Context));
    if let Some(source) = source {
        if options.default.is_some() {
            return Err(Error::new(ident.span(), "an injected parameter has no default"));
        }
        let ty = without_self(ty.to_token_stream());
        let description = options.description;
        return Ok(ToolParameter::InjectedParameter(InjectedParameter {
            name,
            ty,
            description,
            source,
        }));
    }
    Ok(ToolParameter::Argument(Argument {
        field: ident.clone(),
        name,
        default: options.default.map(|default| default_of(default, ty)),
        ty: without_self(ty.to_token_stream()),
        description: options.description,
    }))
}

/// Rejects duplicate parameter names.
pub(crate) fn check_names(parameters: &[ToolParameter], signature: &Signature) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for parameter in parameters {
        let name = match parameter {
            ToolParameter::Argument(argument) => &argument.name,
            ToolParameter::InjectedParameter(injected)
                if injected.source != InjectSource::Context =>
            {
                &injected.name
            }
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

/// Detects an injected parameter by its type; `None` for a parameter that the
/// model fills.
fn source(ty: &Type) -> Option<InjectSource> {
    let (name, inside) = last_segment(ty)?;
    match (name.to_string().as_str(), inside) {
        ("Inject" | "Emitter" | "CallId" | "Tools", _) => Some(InjectSource::Context),
        ("Arc", Some(inside)) if is_named(inside, "Agent") => Some(InjectSource::Context),
        ("Secret", None) => Some(InjectSource::Secret),
        ("Option", Some(inside)) => source(inside).map(|source| match source {
            InjectSource::Secret => InjectSource::OptionalSecret,
            other => other,
        }),
        _ => None,
    }
}

/// The default as an expression of the parameter's type. A string literal is
/// converted, and the default of an `Option<T>` is written as a `T`.
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

/// The last segment of a type's path, and its type argument if it has exactly
/// one.
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

/// Whether a type's path ends with this name.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    last_segment(ty).is_some_and(|(own, _)| own == name)
}

/// Strips parentheses and invisible groups from a type.
pub(crate) fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

/// Replaces `Self` with [`OWNER`].
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
