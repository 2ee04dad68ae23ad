//! The tables of this crate against recorded facts of the API they describe.
//!
//! The facts are not part of the project. They are looked for in the directories `K3_FACTS` and `K3_GOLDEN`, then
//! in `../shared/k8s` and `../shared/golden` beside the workspace; where they are absent these tests say so
//! and are left out.

mod answers;
mod bootstrap;
mod columns;
mod field_names;
mod kinds;
mod robust;
mod types;

use serde_json::Value;
use std::path::PathBuf;

/// Where facts are, if they are there at all.
fn directory(variable: &str, beside: &str) -> PathBuf {
    let shared = || {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared")
            .join(beside)
    };
    std::env::var_os(variable).map_or_else(shared, PathBuf::from)
}

/// A file of facts; `None`, with a printed line, where there are none.
fn facts(name: &str) -> Option<Value> {
    let file = directory("K3_FACTS", "k8s").join(name);
    if let Ok(text) = std::fs::read(&file) {
        return Some(serde_json::from_slice(&text).expect("facts are JSON"));
    }
    println!("left out: no facts at {} (set K3_FACTS)", file.display());
    None
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
