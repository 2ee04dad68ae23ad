//! What expressions can cost, and what they do cost.

use k3_cel::{Bindings, DeclType, Environment, ListKind, ObjectDeclType, PER_CALL_LIMIT, Program, Shape};
use serde_json::{Value as Json, json};

/// The longest text of a request.
const TEXT: u64 = 3 * 1024 * 1024 - 2;

fn list(item: impl Into<DeclType>, max: u64) -> DeclType {
    DeclType::list(item.into(), ListKind::Atomic, max)
}

fn map(value: impl Into<DeclType>, max: u64) -> DeclType {
    DeclType::map(value.into(), max)
}

fn text(max: u64) -> DeclType {
    DeclType::new(Shape::String, max)
}

fn object(fields: &[(&str, DeclType)]) -> DeclType {
    let object = fields
        .iter()
        .fold(ObjectDeclType::default(), |object, (name, decl)| {
            object.field(name, decl.clone())
        });
    DeclType::object(object).named("self")
}

fn program(decl: &DeclType, rule: &str) -> Program {
    let environment = Environment::new()
        .variable("self", decl.clone())
        .variable("oldSelf", decl.clone());
    Program::compile(&environment, rule).unwrap_or_else(|error| panic!("{rule}: {error}"))
}

/// The most that rules of custom resources can cost, as Kubernetes computes it.
#[test]
fn the_most_that_rules_can_cost() {
    let replace = |max| object(&[("str", text(max)), ("before", text(8)), ("after", text(16))]);
    let split = |max| object(&[("str", text(max)), ("separator", text(max))]);
    let nested = |max| list(map(object(&[("required", text(TEXT))]), max), max);
    for (decl, rule, max) in [
        (list(Shape::Double, 1_572_863), "self.all(x, true)", 4_718_591),
        (list(Shape::Double, 10), "self.all(x, true)", 32),
        (list(text(TEXT), 20), "self.all(x, true)", 62),
        (list(list(Shape::Double, 9), 100), "self.all(x, true)", 302),
        (map(Shape::Double, 10), "self.all(x, true)", 32),
        (text(TEXT), "self.contains('test')", 314_574),
        (text(40), "self.contains('test')", 5),
        (text(TEXT), "self.startsWith('test')", 2),
        (text(TEXT), "size(self + \"hello\") > size(\"hello\")", 314_578),
        (text(16), "size(self + \"hello\") > size(\"hello\")", 7),
        (list(text(TEXT), 8), "self[1] == self[1]", 314_577),
        (list(Shape::Double, 10), "self.all(x, self.all(y, true))", 352),
        (
            list(Shape::Double, 10),
            "self.all(x, self.all(y, self.all(z, true)))",
            3_552,
        ),
        (text(TEXT), "self.matches(\"x\")", 314_574),
        (text(200), "self.matches(\"x\")", 22),
        (text(TEXT), "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7),
        (text(TEXT), "self.matches(\"\")", 1),
        (text(TEXT), "self == \"x\"", 2),
        (text(0), "self == \"x\"", 1),
        (list(Shape::Double, 1_572_863), "self.all(x, x == 0.0)", 6_291_454),
        (map(text(40), 10), "self.all(x, x.contains(self[x]))", 72),
        (nested(10), "self.all(x, x[\"y\"].required == \"z\")", 72),
        (
            list(DeclType::new(Shape::IntOrString, TEXT), 10),
            "self[0] == 5",
            3,
        ),
        (list(Shape::Bool, 10), "self[0] == false", 2),
        (list(list(Shape::Double, 10), 10), "self[0][0] == -1.0", 3),
        (list(map(Shape::Double, 12), 12), "self.all(x, x.y == 25.2)", 74),
        (list(map(Shape::Double, 12), 12), "self[0].x > 2.0", 4),
        (
            list(DeclType::new(Shape::Duration, 32), 5),
            "self[0].getHours() == 2",
            4,
        ),
        (text(TEXT), "self.find('[0-9]+') == ''", 629_147),
        (text(40), "self.find('[0-9]+') == ''", 11),
        (list(text(40), 10), "self.join(' ') == 'aa bb'", 43),
        (list(text(40), 10), "self.isSorted() == true", 52),
        (
            replace(TEXT),
            "self.str.replace(self.before, self.after) == 'does not matter'",
            629_154,
        ),
        (
            replace(16),
            "self.str.replace(self.before, self.after) == 'does not matter'",
            12,
        ),
        (split(TEXT), "self.str.split(self.separator) == []", 629_160),
        (split(40), "self.str.split(self.separator) == []", 22),
        (text(TEXT), "self.lowerAscii() == 'lower!'", 314_575),
        (text(40), "self.lowerAscii() == 'lower!'", 6),
        (map(Shape::Int, 10), "oldSelf.size() == self.size()", 5),
        (
            map(DeclType::new(Shape::Timestamp, 32), 7),
            "self[\"a\"] == self[\"b\"]",
            8,
        ),
        (
            map(DeclType::new(Shape::Duration, 32), 7),
            "self[\"c\"] == self[\"d\"]",
            8,
        ),
        (text(9), "self.contains('A')", 2),
        (text(4_000), "self.contains('A')", 401),
        (
            DeclType::new(Shape::IntOrString, TEXT),
            "isQuantity(self)",
            314_574,
        ),
        (DeclType::new(Shape::IntOrString, 80), "isQuantity(self)", 9),
    ] {
        assert_eq!(program(&decl, rule).estimate().max, max, "{rule} with {decl:?}");
    }
}

/// What rules cost with these values.
#[test]
fn what_rules_cost() {
    let dynamic = DeclType::from(Shape::Dyn);
    let value = json!({
        "s": "0123456789", "n": 1, "list": [1, 2, 3], "texts": ["a", "b"], "map": {"k": "v"}, "o": {"o": {"o": 1}},
    });
    for (rule, cost) in [
        ("\"Hello World!\"", 0),
        ("self", 1),
        ("self.n", 2),
        ("self.o.o.o", 4),
        ("self['n']", 2),
        ("self['' + 'n']", 3),
        ("self.list[self.n]", 4),
        ("has(self.n)", 1),
        ("has(self.o.o)", 2),
        ("self.n == 1", 3),
        ("self.s == '0123456789'", 3),
        ("self.n + 1 == 2", 4),
        ("self.n < 5", 3),
        ("self.s.startsWith('a')", 3),
        ("self.s.contains('345')", 3),
        ("self.s.matches('[0-9]+')", 2 + 2 * 2),
        ("self.s + 'a'", 4),
        ("[1, 2, 3]", 0),
        ("[self.n]", 12),
        ("{'a': 1}", 0),
        ("{'a': self.n}", 32),
        ("self.n in [1, 2]", 2),
        ("self.n in self.list", 5),
        ("'a' in ['a', 'b']", 0),
        ("true && false || true", 0),
        ("self.n == 1 ? self.s : self.n", 4),
        ("self.n == 1 ? self : self", 3),
        ("self.list.all(x, x > 0)", 2 + 3 * (2 + 1 + 2) + 1),
        ("self.list.exists(x, x > 0)", 2 + (3 + 1 + 2) + 3 + 1),
        ("self.list.map(x, x)", 2 + 3 * (1 + 1 + 10 + 1) + 1),
        ("self.list.filter(x, x > 1)", 2 + 3 * 2 + 2 * (1 + 1 + 10 + 1) + 1),
        ("self.list.exists_one(x, x > 1)", 2 + 3 * 2 + 2 * 2 + 2),
        ("self.?n.orValue(0)", 2),
        ("self.?zz.orValue(0)", 1),
        ("int('5')", 0),
        ("type(self.n) == int", 4),
        ("[3, 1, 2].sort()", 18 + 11),
        ("sets.contains([1, 2], [1])", 3),
        ("quantity('1Gi').isGreaterThan(quantity('1'))", 1 + 1 + 1),
        ("ip('127.0.0.1').family()", 2),
        ("'abc'.lowerAscii()", 1),
        ("self.texts.join(',')", 3),
    ] {
        let environment = Environment::new().variable("self", dynamic.clone());
        let program = Program::compile(&environment, rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
        let outcome = program.evaluate(&Bindings::new().json("self", &value, &dynamic), PER_CALL_LIMIT);
        assert!(outcome.result.is_ok(), "{rule}: {:?}", outcome.result);
        assert_eq!(outcome.cost, cost, "{rule}");
    }
}

#[test]
fn stops_above_the_cost_limit() {
    let decl = list(Shape::Int, 100);
    let value = json!((0..100).collect::<Vec<_>>());
    let run = |rule: &str, limit| {
        let outcome = program(&decl, rule).evaluate(&Bindings::new().json("self", &value, &decl), limit);
        outcome
            .result
            .map(|value| value.to_json().unwrap())
            .map_err(|error| error.to_string())
    };
    let over = Err("operation cancelled: actual cost limit exceeded".to_owned());
    assert_eq!(run("self.all(x, x >= 0)", 502), Ok(Json::Bool(true)));
    assert_eq!(run("self.all(x, x >= 0)", 501), over);
    // No error of another kind hides it.
    assert_eq!(run("self.all(x, x >= 0) || true", 100), over);
    assert_eq!(run("true || self.all(x, x >= 0)", 100), Ok(Json::Bool(true)));
}
