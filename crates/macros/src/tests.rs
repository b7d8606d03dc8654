//! What the macro refuses, and that it gives back the item it was put on.
//! What it accepts is tested where it runs: in the engine's tests.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

fn expand(attribute: &str, item: &str) -> TokenStream {
    crate::item::expand(attribute.parse().unwrap(), &item.parse().unwrap())
}

/// The texts of all errors in the expansion, in order.
fn errors(attribute: &str, item: &str) -> Vec<String> {
    let mut tokens = expand(attribute, item).into_iter();
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Ident(ident) if ident == "compile_error") {
            let Some(TokenTree::Group(text)) = tokens.nth(1) else { panic!("no text") };
            found.push(syn::parse2::<syn::LitStr>(text.stream()).unwrap().value());
        }
    }
    found
}

/// Expects exactly one error, which says this.
#[track_caller]
fn refused(attribute: &str, item: &str, why: &str) {
    let errors = errors(attribute, item);
    assert!(matches!(errors.as_slice(), [one] if one.contains(why)), "{item}: {errors:?}");
}

#[track_caller]
fn accepted(attribute: &str, item: &str) {
    assert_eq!(errors(attribute, item), [""; 0]);
}

#[test]
fn functions_that_cannot_be_tools_are_refused() {
    refused("", "fn f() {}", "a tool needs a description: write a doc comment");
    refused("", "struct Weather;", "goes on a function, or on an impl block");
    for (function, why) in [
        ("unsafe fn f() {}", "cannot be unsafe"),
        ("const fn f() {}", "cannot be const"),
        ("extern \"C\" fn f() {}", "a Rust function"),
        ("fn f<T>(value: T) {}", "cannot be generic"),
        ("fn f() where u8: Copy {}", "cannot be generic"),
        ("fn f(&self) {}", "on the impl block too"),
        ("fn f((a, b): (u8, u8)) {}", "a plain name"),
        ("fn f(_: u8) {}", "a plain name"),
        ("fn f(a: &str) {}", "take `String` instead of `&str`"),
        ("async fn f(a: &mut Call) {}", "only `&Call` is borrowed"),
        ("fn f(a: impl Into<String>) {}", "a type of its own"),
        ("fn f(call: &Call) {}", "make it async, or mark it"),
        ("fn f(a: u8) -> &str { \"\" }", "an owned value"),
        ("fn f(#[cfg(test)] a: u8) {}", "cannot depend on `cfg`"),
        ("fn f(#[param(size = 3)] a: u8) {}", "unknown key `size`"),
        ("fn f(#[param(name = 3)] a: u8) {}", "expected string literal"),
        ("fn f(#[inject(3)] a: u8) {}", "unexpected token"),
        ("fn f(#[param(default)] a: Emitter) {}", "has no default"),
        ("fn f(#[param(name = \"b\")] a: u8, b: u8) {}", "the name `b`"),
        ("fn f(#[param(name = \"b\")] a: Secret, b: u8) {}", "the name `b`"),
    ] {
        refused("", &format!("/** d */ {function}"), why);
    }
}

#[test]
fn attributes_that_mean_nothing_are_refused() {
    for (attribute, why) in [
        ("nam = \"x\"", "unknown key `nam`; there are name, description"),
        ("windlass::name = \"x\"", "unknown key"),
        ("name = \"get weather\"", "cannot have a ' '"),
        ("name = \"\"", "a tool name is empty"),
        ("name = \"a\", name = \"b\"", "`name` is given twice"),
        ("timeout = \"soon\"", "`soon` is not a duration; write 30s"),
        ("timeout = 5", "expected string literal"),
        ("timeout = \"0s\"", "out of range"),
        ("cache", "`cache` needs a tool that is `read_only`"),
        ("cache = \"soon\", read_only", "`soon` is not a duration"),
        ("retry", "write `retry = 3`"),
        ("retry = 0", "at least 1 attempt"),
        ("retry = \"3\"", "expected integer literal"),
        ("retry(times = 3)", "unknown key `times`; `retry` has attempts"),
        ("retry(attempts = 3, multiplier = 0.5)", "from 1 to 100"),
        ("writes = []", "names what the tool changes"),
        ("writes = \"memory:{user\"", "write a parameter in braces"),
        ("writes = \"memory:user}\"", "a brace that nothing opens"),
        ("writes = [3]", "expected string literal"),
        ("safe_when", "write `safe_when(action"),
        ("safe_when(a = [])", "with which values"),
        ("safe_when(a = [b()])", "a text, a number, true or false"),
        ("safe_when(a = [1])", "the function has no parameter `a`"),
        ("inline", "leave `inline` out"),
        ("prefix = \"x\"", "belongs on the impl block"),
        ("crate = \"1\"", "expected"),
    ] {
        refused(attribute, "/** d */ async fn f() {}", why);
    }
    accepted(
        "name = \"天气.get\", read_only, idempotent = false, timeout = \"1.5m\", crate = \"crate::w\"",
        "/** d */ async fn f(call: &Call, r#type: String) -> &'static str { \"\" }",
    );
    accepted(
        "read_only, cache, writes = [\"notes\", \"memory:{user}:{type}\"], retry = 2, \
         safe_when(action = [\"load\", -1, 2.5, true])",
        "/** d */ async fn f(#[param(name = \"action\")] what: Action) {}",
    );
    accepted(
        "read_only, cache = \"10m\", retry(attempts = 5, backoff = \"1s\", multiplier = 2, \
         max_backoff = \"1m\")",
        "/** d */ fn f() {}",
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let errors = errors("colour = \"red\"", "unsafe fn f(a: &str, b: &[u8]) {}");
    let about = ["unknown key", "unsafe", "owns its", "owns its", "description"];
    assert_eq!(errors.len(), about.len(), "{errors:?}");
    for (error, about) in errors.iter().zip(about) {
        assert!(error.contains(about), "{error}");
    }
}

#[test]
fn blocks_that_have_no_tools_are_refused() {
    for (attribute, block, why) in [
        ("", "impl W {}", "no method of this block is marked"),
        ("name = \"x\"", "impl W { #[tool] /** d */ fn f() {} }", "its methods"),
        ("", "impl Tools for W { #[tool] /** d */ fn f() {} }", "without a trait"),
        ("", "impl<T> W<T> { #[tool] /** d */ fn f() {} }", "concrete types"),
        ("", "impl W { #[tool] /** d */ fn f(&mut self) {} }", "take `&self`"),
        ("", "impl W { #[tool] /** d */ fn f(self) {} }", "take `&self`"),
        ("", "impl W { #[tool] fn f(&self) {} }", "a doc comment"),
        ("", "impl W { #[tool = 3] /** d */ fn f(&self) {} }", "#[tool(key"),
        ("prefix = \"a b\"", "impl W { #[tool] /** d */ fn f() {} }", "a ' '"),
    ] {
        refused(attribute, block, why);
    }
    accepted(
        "prefix = \"w_\", group = \"g\", category = \"http\"",
        "impl W<u8> {
            /** d */ #[windlass::tool(read_only)] async fn get(&self, unit: Self) {}
            /** d */ #[tool(inline)] fn set(self: &Self, #[param(default = Self::A)] a: u8) {}
            fn helper(&mut self) {}
        }",
    );
}

#[test]
fn the_item_stays_as_it_was() {
    let function = given_back(
        "/// Gets the weather.
        pub async fn get(
            /// City
            #[param(default = \"Bern\")] mut city: String,
            #[inject] clock: Clock,
            #[allow(unused)] days: u32
        ) -> String { city.push('!'); city }",
    );
    assert!(function.attrs[0].path().is_ident("doc"));
    same_signature(
        &function,
        "async fn get(mut city: String, clock: Clock, #[allow(unused)] days: u32) -> String",
    );
    let mistaken = given_back("fn f(#[param(default = 1)] a: u8, b: &str) {}");
    same_signature(&mistaken, "fn f(a: u8, b: &str)");
}

fn given_back(item: &str) -> syn::ItemFn {
    let expanded: syn::File = syn::parse2(expand("", item)).unwrap();
    match expanded.items.into_iter().next() {
        Some(syn::Item::Fn(function)) => function,
        _ => panic!("the function comes first"),
    }
}

#[track_caller]
fn same_signature(function: &syn::ItemFn, expected: &str) {
    let expected: syn::Signature = syn::parse_str(expected).unwrap();
    let [is, should] = [&function.sig, &expected].map(|one| one.to_token_stream().to_string());
    assert_eq!(is, should);
}
