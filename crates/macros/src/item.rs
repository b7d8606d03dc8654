//! Items generated beside a function or an impl block with `#[tool]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Error, ImplItem, Item, ItemFn, ItemImpl, Result, parse_quote};

use crate::attribute::{BlockOptions, ToolOptions};
use crate::expand;
use crate::function::{Errors, FunctionPlace, ToolFunction};

/// The whole macro.
pub(crate) fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    match syn::parse2(item.clone()) {
        Ok(Item::Fn(mut function)) => {
            let beside = beside_function(attribute, &mut function);
            together(&function, beside)
        }
        Ok(Item::Impl(mut block)) => {
            let beside = beside_block(attribute, &mut block);
            together(&block, beside)
        }
        Ok(other) => {
            let why = "`#[tool]` goes on a function, or on an impl block and its methods";
            together(item, Err(Error::new_spanned(other, why)))
        }
        Err(error) => together(item, Err(error)),
    }
}

fn together(item: &impl ToTokens, beside: Result<TokenStream>) -> TokenStream {
    let beside = beside.unwrap_or_else(|error| error.to_compile_error());
    quote!(#item #beside)
}

/// Generates a type of the function's name with a function `tool`. A struct
/// with braces is in the type namespace only, so it does not clash with the
/// function.
fn beside_function(attribute: TokenStream, item: &mut ItemFn) -> Result<TokenStream> {
    let options = ToolOptions::parse(attribute);
    let function = ToolFunction::read(&item.attrs, &mut item.sig, options, FunctionPlace::Free)?;
    allow_tool_signature(&mut item.attrs);
    let (vis, ident) = (&item.vis, &item.sig.ident);
    let conditions = conditions(&item.attrs);
    let (root, tool) = (&function.root, expand::function_tool(&function));
    let about = format!("The tool that calls the function `{ident}`.");
    Ok(quote! {
        #(#conditions)*
        #[doc = #about]
        #[allow(dead_code, non_camel_case_types, unreachable_pub)]
        #vis struct #ident {}

        #(#conditions)*
        #[allow(dead_code, deprecated, unreachable_pub)]
        impl #ident {
            /// The tool, to be registered with an engine.
            #vis fn tool() -> #root::ToolBuilder #tool
        }
    })
}

/// Generates `tools` and `shared_tools`, which create the tools of all marked
/// methods.
fn beside_block(attribute: TokenStream, block: &mut ItemImpl) -> Result<TokenStream> {
    let mut errors = Errors::default();
    let shared = errors.keep(BlockOptions::parse(attribute)).unwrap_or_default();
    check_block(block, &mut errors);
    let owner = &*block.self_ty;
    let prefix = shared.prefix.as_ref().map(|prefix| prefix.value()).unwrap_or_default();
    let place = FunctionPlace::Method { owner, prefix: &prefix };
    let mut tools = Vec::new();
    let mut marked = false;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(at) = method.attrs.iter().position(is_tool) else { continue };
        marked = true;
        let options = ToolOptions::from_attribute(&method.attrs.remove(at))
            .map(|options| options.inheriting(&shared));
        let read = ToolFunction::read(&method.attrs, &mut method.sig, options, place);
        let Some(function) = errors.keep(read) else { continue };
        let conditions = conditions(&method.attrs);
        let tool = expand::method_tool(&function, owner);
        tools.push(quote!(#(#conditions)* __tools.push(#tool);));
        allow_tool_signature(&mut method.attrs);
    }
    if !marked {
        errors.add(Error::new_spanned(owner, "no method of this block is marked `#[tool]`"));
    }
    let root = shared.root.unwrap_or_else(|| parse_quote!(::windlass));
    let conditions = conditions(&block.attrs);
    errors.finish(quote! {
        #(#conditions)*
        #[allow(dead_code, deprecated, unreachable_pub)]
        impl #owner {
            /// The tools of this object, which share it.
            pub fn tools(self) -> ::std::vec::Vec<#root::ToolBuilder> {
                Self::shared_tools(::std::sync::Arc::new(self))
            }

            /// The tools of an object that others use too.
            #[allow(unused_variables)]
            pub fn shared_tools(
                __this: ::std::sync::Arc<Self>,
            ) -> ::std::vec::Vec<#root::ToolBuilder> {
                let mut __tools = ::std::vec::Vec::new();
                #(#tools)*
                __tools
            }
        }
    })
}

fn check_block(block: &ItemImpl, errors: &mut Errors) {
    if let Some((_, of, _)) = &block.trait_ {
        let why = "`#[tool]` goes on an impl block without a trait";
        errors.add(Error::new_spanned(of, why));
    }
    if let Some(unsafety) = &block.unsafety {
        errors.add(Error::new_spanned(unsafety, "a tool cannot be unsafe"));
    }
    let generic = "tools need concrete types: `#[tool]` cannot go on a generic impl block";
    if !block.generics.params.is_empty() {
        errors.add(Error::new_spanned(&block.generics.params, generic));
    }
    if let Some(clause) = &block.generics.where_clause {
        errors.add(Error::new_spanned(clause, generic));
    }
}

/// Whether an attribute is `#[tool]`, under any path such as
/// `#[windlass::tool]`.
fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// The `cfg` attributes of an item, which apply to generated items as well.
fn conditions(attributes: &[Attribute]) -> Vec<Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect()
}

/// Suppresses clippy's advice on signatures: a tool owns its parameters and may
/// have many.
fn allow_tool_signature(attributes: &mut Vec<Attribute>) {
    attributes.push(parse_quote! {
        #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, clippy::unused_async)]
    });
}
