//! How the binary is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-env-changed=K3_KEEP_NAMES");
        // Symbols are a fourth of the binary, and panics report file and line without them. The `strip`
        // setting of the profile has no effect on a package with its own opt-level. Profilers need the symbols.
        if env::var_os("K3_KEEP_NAMES").is_none() {
            println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
        }
        // Identical code folding removes the duplicates of generic code. The linker that rustc ships for this target
        // supports it; others may not.
        if env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu") {
            println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}
