//! What custom resource definitions of the size that operators bring cost: memory before and after their first use, and the
//! time to judge, read and use them.

#[path = "../tests/custom/operators.rs"]
mod operators;

use std::time::{Duration, Instant};

use k3_api::{
    custom::{Definition, published},
    kinds::builtin,
    strategy::{self, RestStrategy, StrategyContext, Tree, TreeMut, User},
    time::Time,
};
use serde_json::{Value, json};

const TIMES: usize = 40;

fn main() {
    let crds = operators::all();
    let read = || crds.iter().filter_map(|crd| Definition::read(crd).ok());
    drop(read().collect::<Vec<_>>());
    let before = resident();
    let definitions: Vec<_> = std::iter::repeat_with(read).take(TIMES).flatten().collect();
    let unused = resident().saturating_sub(before) / definitions.len();
    let ((), compiling) = timed(|| definitions.iter().for_each(use_it));
    let used = resident().saturating_sub(before) / definitions.len();
    println!(
        "a definition takes {} KiB unused, {} KiB used",
        unused >> 10,
        used >> 10
    );
    let count = u32::try_from(definitions.len()).unwrap_or(u32::MAX);
    println!("its first use takes {:?}", compiling / count);
    for crd in &crds {
        let name = crd.at("metadata").text("name");
        let size = crd.to_string().len() >> 10;
        let ((), judging) = timed(|| judge(crd));
        let (definition, reading) = timed(|| Definition::read(crd));
        let (_, publishing) = timed(|| (published::v3(crd, "v1"), published::v2(crd, "v1")));
        println!(
            "{name}: {size} KiB, judged in {judging:?}, read in {reading:?}, published in {publishing:?}"
        );
        drop(definition);
    }
}

/// What a server does before it stores a definition.
fn judge(crd: &Value) {
    let Some(kind) = builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition") else {
        return;
    };
    let mut object = kind
        .ty
        .normalize(crd)
        .map(|decoded| decoded.value)
        .unwrap_or_default();
    strategy::for_kind(kind).set_defaults(&mut object);
    object.ensure_object("metadata").set("uid", "u");
    let now = Time::parse("2024-01-01T00:00:00Z").expect("a time of the usual form");
    let user = User::default();
    let at = StrategyContext {
        kind,
        now,
        user: &user,
    };
    if let Err(status) = strategy::create(&mut object, &at) {
        println!("{}", status.message);
    }
}

fn use_it(definition: &Definition) {
    let mut object = json!({"spec": {}});
    definition.storage().strategy.set_defaults(&mut object);
}

#[expect(clippy::disallowed_methods, reason = "an example that measures has a clock")]
fn timed<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let began = Instant::now();
    let result = run();
    (result, began.elapsed())
}

/// So many bytes of memory the process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}
