use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn labels(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn selectors_have_one_text() {
    for (text, canonical) in [
        ("", ""),
        ("  a = b ", "a=b"),
        ("z,a==b", "a==b,z"),
        ("k in (c,a, b),!absent", "!absent,k in (a,b,c)"),
        ("k notin ()", "k notin ()"),
        ("k in (,a)", "k in (,a)"),
        ("k in (a,,b)", "k in (,a,b)"),
        ("k in (a,)", "k in (,a)"),
        ("k in (in,notin)", "k in (in,notin)"),
        ("in in (in)", "in in (in)"),
        ("k=", "k="),
        ("k=,l", "k=,l"),
        ("n>5,m < 3", "m<3,n>5"),
        ("e.com/x!=y", "e.com/x!=y"),
        ("a,b\u{0}", "a,b"),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    for (text, error) in [
        (
            "k===v",
            "unable to parse requirement: found '=', expected: identifier",
        ),
        ("k=1,,", "found ',', expected: identifier after ','"),
        ("k=1,", "found '', expected: identifier after ','"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "!!a",
            "unable to parse requirement: found '!', expected: identifier",
        ),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        (
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (b c)",
            "unable to parse requirement: found 'c', expected: ',' or ')'",
        ),
        (
            "a in (b,",
            "unable to parse requirement: found '', expected: ',', or identifier",
        ),
        (
            "a in (=)",
            "unable to parse requirement: found '=', expected: ',', ')' or identifier",
        ),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
             be an integer",
        ),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn keys_and_values_that_can_be_no_label_are_refused() {
    let error = refused(&format!("{}=1", "k".repeat(64)));
    assert_eq!(
        error,
        format!(
            "unable to parse requirement: <nil>: Invalid value: \"{}\": name part must be no more than 63 bytes",
            "k".repeat(64)
        )
    );
    let error = refused("k=-");
    assert!(error.starts_with(
        "unable to parse requirement: values[0][k]: Invalid value: \"-\": a valid label must be an empty string or"
    ));
    let at = Path::new("spec").child("selector").to_string();
    let spec = Path::new("spec");
    let error = parse_at("k~", &spec.child("selector")).unwrap_err().to_string();
    assert!(error.starts_with(&format!(
        "unable to parse requirement: {at}: Invalid value: \"k~\""
    )));
}

#[test]
fn each_operator_matches_by_its_rule() {
    let map = labels(&json!({"app": "web", "n": "7", "e": ""}));
    for (text, expected) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("!no", true),
        ("no", false),
        ("app=web", true),
        ("app==db", false),
        ("app!=db", true),
        ("no!=db", true),
        ("no=", false),
        ("e=", true),
        ("app in (db,web)", true),
        ("no in (db)", false),
        ("app notin (db)", true),
        ("no notin (db)", true),
        ("app notin (web)", false),
        ("n>6", true),
        ("n>7", false),
        ("n<8", true),
        ("app>1", false),
        ("no<1", false),
        ("app,n=7,no", false),
    ] {
        assert_eq!(parse(text).unwrap().matches(&map), expected, "{text}");
    }
    assert!(parse("!a").unwrap().matches(&None::<&Map<String, Value>>));
}

#[test]
fn objects_become_selectors() {
    let everything = from_object(Some(&json!({}))).unwrap();
    assert!(everything.is_empty() && everything.matches(&Map::new()));
    let nothing = from_object(None).unwrap();
    assert!(!nothing.is_empty() && !nothing.matches(&Map::new()));
    let selector = from_object(Some(&json!({
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "c", "operator": "DoesNotExist"},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
        ],
    })))
    .unwrap();
    assert_eq!(selector.to_string(), "a in (x,y),b=1,!c,d,e notin (z)");
    assert_eq!(
        from_object(Some(
            &json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]})
        ))
        .unwrap_err()
        .to_string(),
        "\"Gt\" is not a valid label selector operator"
    );
    assert_eq!(
        from_object(Some(
            &json!({"matchExpressions": [{"key": "a", "operator": "In"}]})
        ))
        .unwrap_err()
        .to_string(),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        from_labels(Some(&json!({"b": "2", "a": "1"}))).to_string(),
        "a=1,b=2"
    );
}

#[test]
fn validates_label_selector_objects() {
    let at = Path::new("s");
    let selector = json!({
        "matchLabels": {"a b": "c"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Foo", "values": ["-"]},
        ],
    });
    let errors = validate(&at, &selector, InvalidValues::Refused, UnknownOperators::Refused);
    let texts: Vec<_> = errors
        .iter()
        .map(|e| e.to_string().chars().take(70).collect::<String>())
        .collect();
    assert_eq!(
        texts,
        [
            "s.matchLabels: Invalid value: \"a b\": name part must consist of alphanu",
            "s.matchExpressions[0].values: Required value: must be specified when `",
            "s.matchExpressions[1].values: Forbidden: may not be specified when `op",
            "s.matchExpressions[2].operator: Invalid value: \"Foo\": not a valid sele",
            "s.matchExpressions[2].values[0]: Invalid value: \"-\": a valid label mus",
        ]
    );
    assert_eq!(
        validate(&at, &selector, InvalidValues::Taken, UnknownOperators::Taken).len(),
        3
    );
}

#[test]
fn an_exact_value_is_known() {
    let selector = parse("a=1,b in (2),c in (3,4),d!=5").unwrap();
    assert_eq!(selector.exact("a"), Some("1"));
    assert_eq!(selector.exact("b"), Some("2"));
    for key in ["c", "d", "e"] {
        assert_eq!(selector.exact(key), None);
    }
}

/// The result of a scan of all requirements.
fn scan(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    selector.requirements().iter().all(|one| one.matches(labels))
}

#[test]
fn many_requirements_match_as_few_do() {
    let padding =
        |sign: &str| (0..20).fold(String::new(), |text, number| text + &format!(",{sign}x{number}"));
    for (text, value, is_match) in [
        ("a=1", Some("1"), true),
        ("a=1", Some("2"), false),
        ("a=1", None, false),
        ("a in (1,2),a in (2,3)", Some("2"), true),
        ("a in (1,2),a in (2,3)", Some("1"), false),
        ("a!=1,a notin (2,3)", Some("4"), true),
        ("a!=1,a notin (2,3)", Some("3"), false),
        ("a!=1,a notin (2,3)", None, true),
        ("a,!a", Some("1"), false),
        ("a,!a", None, false),
        ("a>1,a>3,a<7", Some("5"), true),
        ("a>1,a>3,a<7", Some("2"), false),
        ("a>1", Some("x"), false),
    ] {
        let labels: BTreeMap<_, _> = value
            .map(|value| ("a".to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        let selector = parse(&format!("{text}{}", padding("!"))).unwrap();
        assert_eq!(selector.matches(&labels), is_match, "{text} {value:?}");
        let selector = parse(&format!("{text}{}", padding(""))).unwrap();
        assert!(!selector.matches(&labels), "{text} {value:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-c ,=!()<>\\x00in.-]{0,30}") {
        if let Ok(selector) = parse(&text) {
            let canonical = selector.to_string();
            let again = parse(&canonical).unwrap();
            prop_assert_eq!(again.to_string(), canonical);
        }
    }

    #[test]
    fn the_one_text_means_the_same(
        parts in prop::collection::vec(("[a-h]", 0..8usize, prop::collection::vec("[0-2]", 1..3)), 0..24),
        map in prop::collection::btree_map("[a-h]", "[0-3]", 0..8),
    ) {
        let operators = [
            Operator::Equals, Operator::NotEquals, Operator::In, Operator::NotIn, Operator::Exists,
            Operator::DoesNotExist, Operator::GreaterThan, Operator::LessThan,
        ];
        let requirements = parts.into_iter().map(|(key, operator, values)| {
            let operator = operators[operator];
            let values = match operator {
                Operator::Exists | Operator::DoesNotExist => Vec::new(),
                Operator::In | Operator::NotIn => values,
                _ => values[..1].to_vec(),
            };
            Requirement::try_new(key, operator, values).unwrap()
        });
        let selector = Selector::new(requirements.collect());
        let again = parse(&selector.to_string()).unwrap();
        prop_assert_eq!(again.matches(&map), selector.matches(&map));
        prop_assert_eq!(selector.matches(&map), scan(&selector, &map));
    }
}
