//! What is said of expressions that cannot be compiled.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use k3_cel::{DeclType, Environment, ObjectDeclType, Program, Shape};

const EXPR: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                    IDENTIFIER}";

fn errors(source: &str) -> Vec<String> {
    let object = ObjectDeclType::new("test.Self")
        .field("n", Shape::Int)
        .field("s", Shape::String);
    let environment = Environment::new()
        .variable("self", DeclType::object(object))
        .variable("any", Shape::Dyn);
    let text = Program::compile(&environment, source).unwrap_err().to_string();
    text.lines()
        .filter_map(|line| line.strip_prefix("ERROR: <input>:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn errors_show_the_line_and_a_mark() {
    let error = Program::compile(&Environment::new(), "'a' +\n\t'\u{e9}' + x")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "ERROR: <input>:2:8: undeclared reference to 'x' (in container '')\n |  '\u{e9}' + x\n | ..\u{ff0e}....^"
    );
}

#[test]
fn syntax_errors_have_the_words_of_the_grammar() {
    let expr = |place: &str, what: &str| format!("{place}: Syntax error: {what} expecting {EXPR}");
    for (source, expected) in [
        (
            "device.x ===",
            vec![
                "1:12: Syntax error: token recognition error at: '='".to_owned(),
                expr("1:13", "mismatched input '<EOF>'"),
            ],
        ),
        ("", vec![expr("1:1", "mismatched input '<EOF>'")]),
        (
            "a b",
            vec!["1:3: Syntax error: extraneous input 'b' expecting <EOF>".to_owned()],
        ),
        (
            "a b c",
            vec!["1:3: Syntax error: mismatched input 'b' expecting <EOF>".to_owned()],
        ),
        (
            "*@a | b",
            vec![
                expr("1:1", "extraneous input '*'"),
                "1:2: Syntax error: token recognition error at: '@'".to_owned(),
                "1:5: Syntax error: token recognition error at: '| '".to_owned(),
                "1:7: Syntax error: extraneous input 'b' expecting <EOF>".to_owned(),
            ],
        ),
        (
            "?",
            vec![
                expr("1:1", "mismatched input '?'"),
                expr("1:2", "mismatched input '<EOF>'"),
            ],
        ),
        (
            "self.",
            vec!["1:6: Syntax error: no viable alternative at input '.'".to_owned()],
        ),
        (
            "self.true",
            vec!["1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER".to_owned()],
        ),
        ("1 + ", vec![expr("1:5", "mismatched input '<EOF>'")]),
        ("(1", vec!["1:3: Syntax error: missing ')' at '<EOF>'".to_owned()]),
        (
            "[1, 2",
            vec!["1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}".to_owned()],
        ),
        (
            "true ? 1",
            vec!["1:9: Syntax error: mismatched input '<EOF>' expecting ':'".to_owned()],
        ),
        (
            "'abc",
            vec![
                "1:1: Syntax error: token recognition error at: ''abc'".to_owned(),
                expr("1:5", "mismatched input '<EOF>'"),
            ],
        ),
        ("while", vec!["1:1: reserved identifier: while".to_owned()]),
        (
            "99999999999999999999",
            vec!["1:1: invalid int literal".to_owned()],
        ),
        ("has(a)", vec!["1:5: invalid argument to has() macro".to_owned()]),
        (
            "[1].all(1, true)",
            vec!["1:9: argument must be a simple name".to_owned()],
        ),
        (
            "[1].map(1, true)",
            vec!["1:9: argument is not an identifier".to_owned()],
        ),
    ] {
        assert_eq!(errors(source), expected, "{source}");
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    for (source, expected) in [
        ("x", "1:1: undeclared reference to 'x' (in container '')"),
        ("self.nope == 1", "1:5: undefined field 'nope'"),
        ("has(self.nope)", "1:4: undefined field 'nope'"),
        (
            "'a' + 1",
            "1:5: found no matching overload for '_+_' applied to '(string, int)'",
        ),
        (
            "self.s.foo()",
            "1:11: undeclared reference to 'foo' (in container '')",
        ),
        (
            "self.s.charAt('a')",
            "1:14: found no matching overload for 'charAt' applied to 'string.(string)'",
        ),
        ("self.n && true", "1:5: expected type 'bool' but found 'int'"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("self.n.x", "1:7: type 'int' does not support field selection"),
        (
            "self.n.all(x, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "true ? 1 : 'a'",
            "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        ("duration('x')", "1:10: invalid duration argument"),
        ("timestamp('x')", "1:11: invalid timestamp argument"),
        ("'a'.matches('[')", "1:13: invalid matches argument"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%z'.format([1])",
            "1:12: could not parse formatting clause: unrecognized formatting clause \"z\"",
        ),
        ("'%s'.format([])", "1:12: index 0 out of range"),
        (
            "'a'.format([1])",
            "1:11: too many arguments supplied to string.format (expected 0, got 1)",
        ),
        ("[1, any]", "1:5: expected type 'int' but found 'dyn'"),
        (
            "cel.bind(x, 1, x)",
            "1:1: undeclared reference to 'cel' (in container '')",
        ),
        (
            "Object{}",
            "1:7: undeclared reference to 'Object' (in container '')",
        ),
        (
            "[1].includes(1)",
            "1:13: undeclared reference to 'includes' (in container '')",
        ),
    ] {
        assert_eq!(
            errors(source).first().map(String::as_str),
            Some(expected),
            "{source}"
        );
    }
}
