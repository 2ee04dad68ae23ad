//! Whatever text comes in as an expression, and whatever it is about: nothing panics, overflows the stack, or takes more
//! than time in proportion.
//!
//! Runs for as many seconds as `K3_FUZZ_SECONDS` says, a second if it says nothing. Inputs are samples with random
//! changes, the same in every run unless `K3_FUZZ_SEED` says otherwise.
#![expect(
    clippy::disallowed_methods,
    reason = "how long the code under test takes is what is asked"
)]

mod deep;

use std::{
    env,
    time::{Duration, Instant},
};

use k3_cel::{Bindings, DeclType, Environment, ListKind, ObjectDeclType, PER_CALL_LIMIT, Program, Shape};
use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::json;

const SAMPLES: &[&str] = &[
    "self.n > 0 && self.list.all(x, x.startsWith('a')) || has(self.s)",
    "[1, 2, 3].map(x, x * 2).filter(y, y > 2).exists_one(z, z == 4) ? 'a' : 'b'",
    "{'a': 1, ?'b': optional.of(2)}.transformMap(k, v, v + 1).all(k, v, k != '' && v > 0)",
    "self.?o.?p.orValue('x').matches('^[a-z]+$') && self.s.find('[0-9]{2,3}') == ''",
    "quantity('1Gi').add(5).isGreaterThan(quantity(self.s)) && ip('::1').isLoopback()",
    "url('https://e.com:80/p?q=1').getQuery() == {} && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
    "'%s %d %.2f %x'.format([self.s, self.n, 1.5, 255]).split(' ', 3).join('-').replace('', 'x')",
    "timestamp('2023-01-01T00:00:00Z') + duration('1h30m') > timestamp(0) || duration('1s').getHours('UTC') == 1",
    "cel.bind(x, self.list, x.sortBy(y, y.size()).reverse().slice(0, 1).flatten() + lists.range(9))",
    "Object{spec: Object.spec{a: 1, ?b: optional.none()}, c: [JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b')}]}",
    "b'\\xff\\u00e9' == bytes('x') || r'''raw''' + \"\"\"long\"\"\" != '\\n\\t\\u0041\\101' // end",
    "semver('1.2.3-a.1+b').compareTo(semver('v1.2', true)) == -1 && format.named('uuid').value().validate('').hasValue()",
    "-9223372036854775808 / -1 == 0x7f && 1u - 2u == 3u && 1e308 * 10.0 > .5 && 5 % 0 == !true",
    "sets.contains(self.list, ['a']) && self.list.indexOf('a') == [1].sum() && [[1]].flatten(2).distinct().max() == 1",
];

const WORDS: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "in",
    " in ",
    "'",
    "\"",
    "'''",
    "\\",
    "`",
    "r'",
    "b\"",
    "@",
    "|",
    "=",
    "\n",
    "\u{e9}",
    "\u{1f600}",
    "0x",
    "1u",
    "1.5",
    "9e999",
    "true",
    "null",
    "self",
    "x",
    "_",
    "for",
    ".all(x, ",
    ".map(x, ",
    ".optMap(x, ",
    ".exists(a, b, ",
    "has(",
    "size(",
    "[?",
    ".?",
    "dyn(",
    "type(",
    "optional.of(",
    "[[[[[[[[",
    "((((((((",
    "{{{{",
    "!!!!!",
    "-----",
    "'a'",
    "1",
    "[1, 2]",
    "{'a': 1}",
    "..",
    ".matches('(a*)*$')",
    ".find('\\\\p{L}')",
    "\\d",
    "{1000}",
    ".format([x])",
    "%s",
    ".charAt(",
    "9223372036854775807",
];

fn inputs() -> impl Strategy<Value = String> {
    let change = (
        any::<prop::sample::Index>(),
        0..12_usize,
        select(WORDS),
        1..4_usize,
    );
    (select(SAMPLES), prop::collection::vec(change, 0..8)).prop_map(|(sample, changes)| {
        let mut chars: Vec<char> = sample.chars().collect();
        for (place, cut, word, times) in changes {
            let at = place.index(chars.len() + 1);
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, word.repeat(times).chars());
        }
        chars.into_iter().collect()
    })
}

fn environment() -> (Environment, DeclType) {
    let object = ObjectDeclType::default()
        .field("n", Shape::Int)
        .field("s", DeclType::new(Shape::String, 100))
        .field("o", DeclType::map(Shape::String.into(), 10))
        .field("any", Shape::Dyn)
        .field(
            "list",
            DeclType::list(DeclType::new(Shape::String, 10), ListKind::Set, 10),
        );
    let decl = DeclType::object(object).named("self");
    (
        Environment::new()
            .variable("self", decl.clone())
            .with_bindings()
            .with_patch_types(),
        decl,
    )
}

#[test]
fn any_text_is_a_program_or_refused_and_programs_end() {
    let seconds = env::var("K3_FUZZ_SECONDS")
        .ok()
        .map_or(1, |text| text.parse().unwrap());
    let seed: u64 = env::var("K3_FUZZ_SEED")
        .ok()
        .map_or(1, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (environment, decl) = environment();
    let value =
        json!({"n": 5, "s": "a1", "o": {"p": "q"}, "any": [1, 2.5, null, {"x": "y"}], "list": ["a", "b"]});
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::MAX,
        failure_persistence: None,
        max_shrink_time: 20_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let mut ran = 0_u64;
    while Instant::now() < end {
        let text = inputs().new_tree(&mut runner).unwrap().current();
        let start = Instant::now();
        let compiled = Program::compile(&environment, &text);
        if let Ok(program) = &compiled {
            ran += 1;
            let outcome = program.evaluate(&Bindings::new().json("self", &value, &decl), PER_CALL_LIMIT);
            if let Ok(value) = outcome.result {
                let _ = value.to_json();
            }
        }
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "took {took:?}: {text:?}");
    }
    assert!(ran > 0, "no sample compiled");
}
