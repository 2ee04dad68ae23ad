//! How the binary is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-env-changed=K3_KEEP_NAMES");
        // The names of functions are a fourth of the binary, and a panic tells its file and line all the same. `strip` of the
        // profile does nothing here: cargo forgets it for a package that has an opt-level of its own. Profilers need them.
        if env::var_os("K3_KEEP_NAMES").is_none() {
            println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
        }
        // Where rustc brings its own linker, that keeps one of the functions that are equal byte by byte, which generic
        // code leaves many of. Other linkers may not know how.
        if env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu") {
            println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}
