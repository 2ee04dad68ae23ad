//! Expressions that nest as deep as can be, on a small stack.

use std::thread;

use k3_cel::{Bindings, Environment, PER_CALL_LIMIT, Program, Shape};
use serde_json::json;

/// As much as a worker of a server has.
const STACK: usize = 2 << 20;

#[test]
fn no_nesting_overflows_the_stack() {
    let nest = |open: &str, inner: &str, close: &str, times: usize| {
        open.repeat(times) + inner + &close.repeat(times)
    };
    let mut sources = Vec::new();
    for times in [50, 120, 200, 249, 251, 2_000, 30_000] {
        sources.extend([
            nest("(", "1", ")", times),
            nest("[", "1", "]", times),
            nest("{1: ", "1", "}", times),
            nest("!(", "true", ")", times),
            nest("-(", "1", ")", times),
            nest("size([", "1", "])", times),
            nest("!size([", "1", "])", times),
            nest("[1].all(x, ", "true", ")", times),
            nest("[x].map(x, ", "x", ")", times),
            nest("true ? (", "true", ") : false", times),
            nest("true ? true : (", "true", ")", times),
            nest("(true || ", "true", ")", times),
            nest("(true && (false || ", "true", "))", times),
            nest("optional.of(", "1", ")", times),
            nest("x[", "0", "]", times),
            nest("x == (", "1", ")", times),
            nest("Object{a: ", "1", "}", times),
            nest("dyn(", "1", ")", times),
            "1 + ".repeat(times) + "1",
            "true && ".repeat(times) + "true",
            "1 == ".repeat(times) + "1",
            "x".to_owned() + &".a".repeat(times),
            "x".to_owned() + &"[0]".repeat(times),
            "x".to_owned() + &".optMap(y, y)".repeat(times.min(300)),
            "'a'".to_owned() + &".trim()".repeat(times),
            "!".repeat(times) + "true",
            "-".repeat(times) + "1",
            "(".repeat(times),
            "[".repeat(times),
            "{".repeat(times),
            "x(".repeat(times),
            "?".repeat(times),
            "'".repeat(times),
            ".".repeat(times),
            "a?".repeat(times),
            "cel.bind(x, {x: x}, ".repeat(times) + "x" + &")".repeat(times),
        ]);
    }
    let run = move || {
        let environment = Environment::new()
            .variable("x", Shape::Dyn)
            .with_bindings()
            .with_patch_types();
        let value = json!([[1], {"a": 1}]);
        for source in sources {
            if let Ok(program) = Program::compile(&environment, &source) {
                let bindings = Bindings::new().json("x", &value, &Shape::Dyn.into());
                let _ = program.evaluate(&bindings, PER_CALL_LIMIT);
            }
        }
    };
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}
