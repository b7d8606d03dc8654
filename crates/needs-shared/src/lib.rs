//! `#[needs_shared]`: for tests that read the folder `shared`, which stands beside
//! the clone and is not part of the repository.
//!
//! Where the folder is missing, such a test is reported as ignored, with the reason;
//! with the variable `CI` set it runs all the same, and fails. The test runner cannot
//! skip a test that has begun, so this is decided when the tests are built. It is an
//! attribute in a crate of its own so that no library needs a build script for its
//! tests.

use proc_macro::TokenStream;
use quote::quote;

/// Ignores a test where the folder `shared` is missing, unless `CI` is set.
#[proc_macro_attribute]
pub fn needs_shared(_: TokenStream, test: TokenStream) -> TokenStream {
    if !cfg!(shared_is_missing) {
        return test;
    }
    let test = proc_macro2::TokenStream::from(test);
    quote! {
        #[ignore = "needs ../shared, which stands beside the clone"]
        #test
    }
    .into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// A folder that came after the tests were built is not noticed by itself.
    #[test]
    fn what_was_decided_is_still_right() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/README.md");
        let is_missing = !file.is_file();
        assert!(
            is_missing || !cfg!(shared_is_missing),
            "`shared` is there now: touch crates/needs-shared/build.rs and test again"
        );
    }
}
