//! Selectors, as texts and as objects.

use std::{collections::BTreeMap, str};

use k3_api::selector::{field, label};

use super::{change, run::run};

const TOKENS: &[&str] = &[
    "a",
    "b/c",
    "=",
    "==",
    "!=",
    "!",
    " in ",
    " notin ",
    "(",
    ")",
    ",",
    " ",
    ">",
    "<",
    "5",
    "-",
    ".",
    "\\",
    "\\,",
    "metadata.name",
    "x=y,",
    "in",
    "notin",
    "(a,b)",
    "\u{e9}",
    "\"",
];

#[test]
fn any_selector_round_trips_or_is_rejected() {
    let samples = [
        "a=b,c!=d",
        "a in (b,c),!d,e",
        "x/y notin (z),n>5,m<7",
        "metadata.name=a,spec.nodeName!=b\\,c",
        "",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec()).to_vec();
    run(&change::bytes(samples, TOKENS), |bytes| {
        let Ok(text) = str::from_utf8(&bytes.0) else {
            return;
        };
        if let Ok(selector) = label::parse(text) {
            let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
            let again = label::parse(&selector.to_string()).expect("a selector prints as one");
            assert_eq!(again.matches(&labels), selector.matches(&labels));
            assert_eq!(again.to_string(), selector.to_string());
        }
        if let Ok(selector) = field::Selector::parse(text) {
            let again = field::Selector::parse(&selector.to_string()).expect("a selector prints as one");
            assert_eq!(again.terms().len(), selector.terms().len());
            selector.matches(|_| Some("b"));
        }
    });
}
