//! Sets `cfg(shared_is_missing)` where the tests that need the folder `shared` are to be ignored.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(shared_is_missing)");
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-changed=build.rs");
    let crate_folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    // One file stands for all: cargo would look at every file of a folder, each
    // time. A path that does not exist would be built again each time, so that it
    // is only named where it does.
    let file = Path::new(&crate_folder).join("../../../shared/corpora/README.md");
    if file.is_file() {
        println!("cargo::rerun-if-changed={}", file.display());
    } else if env::var_os("CI").is_none_or(|set| set.is_empty()) {
        println!("cargo::rustc-cfg=shared_is_missing");
    }
}
