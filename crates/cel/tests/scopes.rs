//! Macros and their variables: what hides what, what is an error, and what a loop does with errors of its items.

use k3_cel::{Bindings, Environment, PER_CALL_LIMIT, Program, Shape};
use serde_json::{Value as Json, json};

fn run(source: &str) -> Result<Json, String> {
    let environment = Environment::new()
        .variable("x", Shape::Int)
        .variable("list", Shape::Dyn)
        .variable("map", Shape::Dyn)
        .with_bindings();
    let x = json!(7);
    let list = json!([1, 2, 3]);
    let map = json!({"a": 1, "b": 2});
    let program = Program::compile(&environment, source).map_err(|error| error.to_string())?;
    let bindings = Bindings::new()
        .json("x", &x, &Shape::Int.into())
        .json("list", &list, &Shape::Dyn.into())
        .json("map", &map, &Shape::Dyn.into());
    let value = program.evaluate(&bindings, PER_CALL_LIMIT).result;
    value
        .and_then(|value| value.to_json())
        .map_err(|error| error.to_string())
}

fn assert_values(cases: &[(&str, Json)]) {
    for (source, expected) in cases {
        assert_eq!(run(source).as_ref(), Ok(expected), "{source}");
    }
}

fn assert_errors(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let error = run(source).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn the_innermost_variable_of_a_name_counts() {
    assert_values(&[
        ("list.map(x, x)", json!([1, 2, 3])),
        ("list.map(x, x) == [1, 2, 3] && x == 7", json!(true)),
        // A leading dot means the variable of the environment.
        ("list.map(x, .x)", json!([7, 7, 7])),
        ("[1, 2].map(x, [10, 20].map(x, x))", json!([[10, 20], [10, 20]])),
        ("[1, 2].map(y, [10].map(z, y + z))", json!([[11], [12]])),
        ("[1, 2].map(y, [y].exists(y, y == 2))", json!([false, true])),
        // The range of a loop is outside of it.
        ("[[1], [2, 3]].map(x, x.map(x, x * 2))", json!([[2], [4, 6]])),
        ("cel.bind(x, x + 1, x + 1)", json!(9)),
        ("cel.bind(a, x, cel.bind(x, 100, a + x))", json!(107)),
        ("cel.bind(a, list, a.map(a, a))", json!([1, 2, 3])),
        ("optional.of(5).optMap(x, x + 1).orValue(0) + x", json!(13)),
        ("optional.none().optMap(x, x).orValue(x)", json!(7)),
    ]);
}

#[test]
fn variables_of_a_loop_end_with_it() {
    assert_errors(&[
        ("list.exists(y, y > 1) && y < 5", "undeclared reference to 'y'"),
        ("list.all(i, v, v > 0) && v > 0", "undeclared reference to 'v'"),
        ("cel.bind(a, 1, a) + a", "undeclared reference to 'a'"),
        (
            "optional.of(1).optMap(o, o).orValue(o)",
            "undeclared reference to 'o'",
        ),
        // The range cannot see the variable of its own loop.
        ("y.map(y, y)", "undeclared reference to 'y'"),
    ]);
}

/// The texts are those of cel-go's macros.
#[test]
fn names_of_loop_variables_are_checked() {
    for macro_name in ["all", "exists", "exists_one", "existsOne"] {
        for (args, expected) in [
            ("i, i, true", "duplicate variable name: i"),
            ("i.j, k, true", "argument must be a simple name"),
            ("j, i.k, true", "argument must be a simple name"),
            (
                "__result__, i, true",
                "iteration variable overwrites accumulator variable",
            ),
            (
                "j, __result__, true",
                "iteration variable overwrites accumulator variable",
            ),
            ("1, true", "argument must be a simple name"),
            (
                "__result__, true",
                "iteration variable overwrites accumulator variable",
            ),
        ] {
            let source = format!("[1].{macro_name}({args})");
            let error = run(&source).expect_err(&source);
            assert!(error.contains(expected), "{source}: {error}");
        }
    }
    for macro_name in ["transformList", "transformMap"] {
        for (args, expected) in [
            ("i, i, i", "duplicate variable name: i"),
            ("i.j, k, k", "argument must be a simple name"),
            ("j, i.k, j", "argument must be a simple name"),
            (
                "__result__, i, i",
                "iteration variable overwrites accumulator variable",
            ),
        ] {
            let source = format!("[1].{macro_name}({args})");
            let error = run(&source).expect_err(&source);
            assert!(error.contains(expected), "{source}: {error}");
        }
    }
    assert_errors(&[
        ("[1].map(a.b, 1)", "argument is not an identifier"),
        ("[1].filter('a', true)", "argument is not an identifier"),
        (
            "cel.bind(a.b, 1, 1)",
            "cel.bind() variable names must be simple identifiers",
        ),
        (
            "optional.of(1).optMap(a.b, 1)",
            "optMap() variable name must be a simple identifier",
        ),
        (
            "optional.of(1).optFlatMap(1, optional.of(1))",
            "optFlatMap() variable name must be a simple identifier",
        ),
        ("has(list)", "invalid argument to has() macro"),
        ("has(list[0])", "invalid argument to has() macro"),
    ]);
}

#[test]
fn only_lists_and_maps_can_be_ranges() {
    assert_errors(&[
        (
            "1.all(j, j < 1)",
            "cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "'abc'.exists(j, true)",
            "cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "1.all(j, k, j < k)",
            "cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("dyn(1).all(j, true)", "got 'types.Int', expected iterable type"),
        ("dyn('a').map(j, j)", "got 'types.String', expected iterable type"),
    ]);
}

#[test]
fn two_variables_are_index_and_item_or_key_and_value() {
    assert_values(&[
        ("[10, 20].transformList(i, v, i * 100 + v)", json!([10, 120])),
        ("[3, 2, 1].transformList(i, v, v > i, v)", json!([3, 2])),
        ("[].transformList(i, v, v)", json!([])),
        ("map.transformMap(k, v, v * 10)", json!({"a": 10, "b": 20})),
        ("map.transformMap(k, v, k == 'b', v)", json!({"b": 2})),
        ("[5, 6].transformMap(i, v, v)[1]", json!(6)),
        ("{'a': 'x'}.transformMapEntry(k, v, {v: k})", json!({"x": "a"})),
        (
            "map.transformMapEntry(k, v, v == 2, {k + k: v})",
            json!({"bb": 2}),
        ),
        ("[1, 2, 3].exists(i, v, i == 2 && v == 3)", json!(true)),
        ("[1, 2, 3].all(i, v, v == i + 1)", json!(true)),
        ("[1, 2, 2].existsOne(i, v, v == 2)", json!(false)),
        ("[1, 2, 2].exists_one(i, v, i == 2)", json!(true)),
        ("map.exists(k, v, k == 'a' && v == 1)", json!(true)),
    ]);
    assert_errors(&[(
        "['a', 'a'].transformMapEntry(i, v, {v: i})",
        "insert failed: key a already exists",
    )]);
}

/// An item decides `all` and `exists` whatever errors other items have; the other macros fail with the first error.
#[test]
fn errors_of_items_are_absorbed_where_the_result_is_decided() {
    assert_values(&[
        ("[0, 2].exists(y, 4 / y == 2)", json!(true)),
        ("[2, 0].exists(y, 4 / y == 2)", json!(true)),
        ("[0, 1].all(y, 4 / y == 2)", json!(false)),
        ("[1, 0].all(y, 4 / y == 2)", json!(false)),
        ("[0, 1].all(i, v, 4 / v == 2)", json!(false)),
    ]);
    assert_errors(&[
        ("[0, 1].exists(y, 4 / y == 2)", "division by zero"),
        ("[0, 2].all(y, 4 / y == 2)", "division by zero"),
        ("[0, 2].exists_one(y, 4 / y == 2)", "division by zero"),
        ("[2, 0].map(y, 4 / y)", "division by zero"),
        ("[2, 0].filter(y, 4 / y == 2)", "division by zero"),
        ("[0].transformList(i, v, 4 / v)", "division by zero"),
        ("[1].all(y, dyn(y))", "no such overload"),
    ]);
}

#[test]
fn optional_entries_and_chains() {
    assert_values(&[
        ("[?map.?a, ?map.?z, dyn(9)]", json!([1, 9])),
        (
            "{?'a': map.?a, ?'z': map.?z, 'k': dyn(1)}",
            json!({"a": 1, "k": 1}),
        ),
        ("map.?a.hasValue() && !map.?z.hasValue()", json!(true)),
        ("map.?z.a.b.c.orValue('none')", json!("none")),
        ("list[?1].orValue(0) + list[?9].orValue(10)", json!(12)),
        ("has(map.?z.a)", json!(false)),
        ("map.?a.or(optional.of(5)).value()", json!(1)),
        ("map.?z.or(map.?b).orValue(0)", json!(2)),
        // What is behind a value is not evaluated.
        ("map.?a.orValue(1 / 0)", json!(1)),
        ("optional.ofNonZeroValue('').orValue('x')", json!("x")),
        ("optional.ofNonZeroValue([]).hasValue()", json!(false)),
        ("optional.ofNonZeroValue({'a': 1}).hasValue()", json!(true)),
        (
            "optional.of(1) == optional.of(1) && optional.of(1) != optional.none()",
            json!(true),
        ),
    ]);
    assert_errors(&[
        ("[?1]", "expected type 'optional_type(int)' but found 'int'"),
        (
            "{?'key': 'hi'}",
            "expected type 'optional_type(string)' but found 'string'",
        ),
        (
            "[?dyn(1)]",
            "cannot initialize optional list element from non-optional value 1",
        ),
        (
            "{?'a': dyn(1)}",
            "cannot initialize optional entry 'a' from non-optional value 1",
        ),
        ("map.?z.value()", "optional.none() dereference"),
    ]);
}
