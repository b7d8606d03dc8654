//! Code generation: from a checked function to the expression that builds its
//! tool.
//!
//! The expression is a block with items of its own: an argument struct, whose
//! derives provide the schema and the parsing, and an executor. They cannot
//! clash with names of the surrounding module; names that could meet a user's
//! start with two underscores.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Path, Type};

use crate::function::{RunMode, ToolFunction};
use crate::parameter::{Argument, InjectSource, InjectedParameter, OWNER, ToolParameter};
use crate::reliability::CacheOption;

/// The tool of a free function.
pub(crate) fn function_tool(function: &ToolFunction) -> TokenStream {
    tool(
        function,
        &quote!(),
        &quote!(
            struct __Executor;
        ),
        &quote!(__Executor),
    )
}

/// The tool of a method; `__this` is the object, in an `Arc`.
pub(crate) fn method_tool(function: &ToolFunction, owner: &Type) -> TokenStream {
    let alias = format_ident!("{OWNER}");
    tool(
        function,
        &quote!(type #alias = #owner;),
        &quote!(struct __Executor(::std::sync::Arc<#owner>);),
        &quote!(__Executor(::std::sync::Arc::clone(&__this))),
    )
}

fn tool(
    function: &ToolFunction,
    alias: &TokenStream,
    executor: &TokenStream,
    new_executor: &TokenStream,
) -> TokenStream {
    let ToolFunction { name, root, .. } = function;
    let arguments = arguments(function);
    let schema = match function.arguments().next() {
        Some(_) => quote!(#root::__private::schema_of::<__Arguments>()),
        None => quote!(#root::empty_object_schema()),
    };
    let body = body(function);
    let settings = settings(function);
    quote! {{
        #alias
        #arguments
        #executor
        impl #root::Executor for __Executor {
            fn execute<'a>(
                &'a self,
                __call: &'a #root::Call,
            ) -> #root::BoxFuture<'a, ::core::result::Result<#root::Output, #root::Error>> {
                #[allow(unused_imports)]
                use #root::__private::{PlainReturn as _, SerializeReturn as _};
                ::std::boxed::Box::pin(async move { #body })
            }
        }
        #root::ToolBuilder::native(#name, #schema, ::std::sync::Arc::new(#new_executor))
            .with(|__spec| { #(#settings)* })
    }}
}

/// The argument struct and the functions for its defaults.
fn arguments(function: &ToolFunction) -> TokenStream {
    if function.arguments().next().is_none() {
        return TokenStream::new();
    }
    let root = &function.root;
    let serde = path_text(root, "serde");
    let schemars = path_text(root, "schemars");
    let fields = function.arguments().enumerate().map(|(at, argument)| field(argument, at));
    let defaults = function.arguments().enumerate().filter_map(|(at, argument)| {
        let default = argument.default.as_ref()?;
        let (name, ty) = (default_name(at), &argument.ty);
        Some(quote!(fn #name() -> #ty { #default }))
    });
    quote! {
        #[derive(#root::__private::serde::Deserialize, #root::__private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        struct __Arguments { #(#fields,)* }
        #(#defaults)*
    }
}

fn field(argument: &Argument, at: usize) -> TokenStream {
    let Argument { field, name, ty, description, default } = argument;
    let rename = (field.unraw() != name).then(|| quote!(#[serde(rename = #name)]));
    let description = description.as_ref().map(|text| quote!(#[schemars(description = #text)]));
    let default = default.as_ref().map(|_| {
        let function = default_name(at).to_string();
        quote!(#[serde(default = #function)])
    });
    quote!(#rename #description #default #field: #ty)
}

fn default_name(at: usize) -> proc_macro2::Ident {
    format_ident!("__default_{at}")
}

/// The path of a re-exported crate, as derives expect it.
fn path_text(root: &Path, name: &str) -> String {
    let root = quote!(#root).to_string().replace(' ', "");
    format!("{root}::__private::{name}")
}

/// Fills the parameters, runs the function and converts the return value.
fn body(function: &ToolFunction) -> TokenStream {
    let ToolFunction { root, callee, .. } = function;
    let parse = function
        .arguments()
        .next()
        .map(|_| quote!(let __arguments: __Arguments = __call.parse()?;));
    let extract = function.injected().enumerate().map(|(at, InjectedParameter { name, ty, .. })| {
        let local = format_ident!("__injected_{at}");
        quote_spanned!(at_place(ty.span())=> let #local = <#ty as #root::FromCall>::from_call(__call, #name)?;)
    });
    let mut injected = 0usize..;
    let values = function.parameters.iter().map(|parameter| match parameter {
        ToolParameter::Argument(Argument { field, .. }) => quote!(__arguments.#field),
        ToolParameter::InjectedParameter(_) => {
            let local = format_ident!("__injected_{}", injected.next().unwrap_or_default());
            quote!(#local)
        }
        ToolParameter::Call => quote!(__call),
    });
    let this = function.takes_self.then(|| match function.run {
        RunMode::Async | RunMode::Inline => quote!(&self.0,),
        RunMode::Blocking => quote!(&__this,),
    });
    let returned = match function.run {
        RunMode::Async => quote!(#callee(#this #(#values),*).await),
        RunMode::Blocking | RunMode::Inline => quote!(#callee(#this #(#values),*)),
    };
    let private = quote!(#root::__private);
    let converted = quote_spanned! {at_place(function.returned)=>
        #private::ReturnValue(#private::ReturnValue(#returned).into_result()?).into_output()
    };
    let result = match function.run {
        RunMode::Async | RunMode::Inline => converted,
        RunMode::Blocking => {
            let share =
                function.takes_self.then(|| quote!(let __this = ::std::sync::Arc::clone(&self.0);));
            quote! {
                #share
                #private::run_blocking(&__call.caller().tenant, move || #converted).await
            }
        }
    };
    quote!(#parse #(#extract)* #result)
}

/// Span for generated code whose errors are shown at a user's location; lints
/// still treat it as generated.
fn at_place(place: Span) -> Span {
    Span::call_site().located_at(place)
}

/// Statements that apply the attribute's options to `__spec`.
fn settings(function: &ToolFunction) -> Vec<TokenStream> {
    let ToolFunction { root, description, options, .. } = function;
    let mut settings =
        vec![quote!(__spec.description = ::core::convert::Into::into(#description);)];
    if let Some(read_only) = options.read_only {
        settings.push(quote!(__spec.behaviour.read_only = #read_only;));
    }
    if let Some(safe) = options.concurrency_safe {
        settings.push(quote! {
            __spec.behaviour.concurrency_safe = ::core::option::Option::Some(#safe);
        });
    }
    if let Some(idempotent) = options.idempotent {
        settings.push(quote!(__spec.behaviour.idempotent = #idempotent;));
    }
    if let Some(destructive) = options.destructive {
        settings.push(quote!(__spec.behaviour.destructive = #destructive;));
    }
    if let Some(timeout) = options.timeout {
        let (seconds, nanos) = (timeout.as_secs(), timeout.subsec_nanos());
        settings.push(quote! {
            __spec.timeout = ::core::option::Option::Some(
                ::core::time::Duration::new(#seconds, #nanos)
            );
        });
    }
    if let Some(group) = &options.group {
        settings.push(quote! {
            __spec.group = ::core::option::Option::Some(::core::convert::Into::into(#group));
        });
    }
    if let Some(category) = &options.category {
        settings.push(quote!(__spec.category = #root::Category::new(#category);));
    }
    if let Some(writes) = &options.writes {
        settings.push(quote! {
            __spec.writes = ::std::vec![#(::std::string::String::from(#writes)),*];
        });
    }
    settings.extend(options.retry.as_ref().map(|retry| retry.setting(root)));
    settings.extend(options.cache.as_ref().map(CacheOption::setting));
    settings.extend(options.safe_when.iter().flatten().map(|one| one.setting(root)));
    settings.extend(function.injected().filter_map(|injected| secret(root, injected)));
    settings
}

/// Declares a secret, so that presets find it and models cannot set it. It is
/// not part of the schema.
fn secret(root: &Path, injected: &InjectedParameter) -> Option<TokenStream> {
    let required = match injected.source {
        InjectSource::Context => return None,
        InjectSource::Secret => true,
        InjectSource::OptionalSecret => false,
    };
    let name = &injected.name;
    let help = match &injected.description {
        Some(text) => {
            quote!(::core::option::Option::Some(::core::convert::Into::into(#text)))
        }
        None => quote!(::core::option::Option::None),
    };
    Some(quote! {
        __spec.parameters.insert(
            ::std::string::String::from(#name),
            #root::Parameter {
                help: #help,
                input: #root::InputKind::SecretInput,
                filled_by: #root::FilledBy::Secret,
                required: #required,
                ..::core::default::Default::default()
            },
        );
    })
}
