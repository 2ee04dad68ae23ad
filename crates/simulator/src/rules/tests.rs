//! Parsing of rules files.

use k3_workloads::Pod;

use super::{Delay, ReadyRule, Rules};
use std::time::Duration;

fn pod(json: &str) -> Pod {
    serde_json::from_str(json).unwrap()
}

#[test]
fn applies_the_first_matching_rule() {
    let rules = Rules::parse(
        "
pods:
- match: {namespace: batch, labels: 'app=web,tier!=db', annotations: crash=true, owner: ReplicaSet}
  run: 1s
- match: {namespace: batch}
  run: {after: 2s, jitter: 1s}
  ready: never
  stop: 5s
",
    )
    .unwrap();
    let owner = r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}]"#;
    let whole = format!(
        r#"{{"metadata":{{"namespace":"batch","labels":{{"app":"web"}},"annotations":{{"crash":"true"}},"ownerReferences":{owner}}}}}"#
    );
    let cases = [
        (&*whole, 1),
        (r#"{"metadata":{"namespace":"batch","labels":{"app":"web"}}}"#, 2),
        (r#"{"metadata":{"namespace":"shop"}}"#, 0),
    ];
    for (pod_json, seconds) in cases {
        let rule = rules.pod(rules.choose(&pod(pod_json)));
        assert_eq!(rule.run.after, Duration::from_secs(seconds), "{pod_json}");
    }
    let rule = rules.pod(1);
    assert_eq!(rule.ready, ReadyRule::Never);
    assert_eq!(rule.run.jitter, Duration::from_secs(1));
    let stop = Delay {
        after: Duration::from_secs(5),
        jitter: Duration::ZERO,
    };
    assert_eq!(rule.stop, stop);
}

#[test]
fn pods_of_jobs_end_unless_a_rule_overrides_it() {
    let of_a_job = pod(
        r#"{"metadata":{"namespace":"a","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"1","controller":true}]}}"#,
    );
    let ends = |text: &str| {
        let rules = Rules::parse(text).unwrap();
        rules.pod(rules.choose(&of_a_job)).exit.is_some()
    };
    assert!(ends(""));
    assert!(ends("pods: [{match: {namespace: b}}]"));
    assert!(!ends("pods: [{match: {owner: Job}}]"));
}

#[test]
fn reports_errors_with_line_and_column() {
    let cases = [
        ("pods:\n- redy: never\n", "line 2", "redy"),
        (
            "pods:\n- match: {}\n  run: soon\n",
            "line 3",
            "\"soon\" is not a duration",
        ),
        ("pods:\n- run: {after: 1}\n", "line 2", "not a duration"),
        (
            "pods:\n- match:\n    labels: 'a in'\n",
            "line 3",
            "unable to parse requirement",
        ),
        ("pods:\n- exit: {code: 300}\n", "line 2", "invalid u8"),
        (
            "nodes:\n- capacity:\n    cpu: many\n",
            "line ",
            "cpu: \"many\" is not a quantity",
        ),
        (
            "nodes:\n- match: {first: 3, last: 1}\n",
            "nodes[0].match",
            "last must not be less than first",
        ),
        ("pods: {a: b}\n", "line 1", ""),
        ("pods:\n  - [\n", "line ", ""),
    ];
    for (text, location, what) in cases {
        let wrong = Rules::parse(text).unwrap_err().to_string();
        assert!(
            wrong.contains(location) && wrong.contains(what),
            "{text}: {wrong}"
        );
    }
    let wrong = Rules::load("/nowhere/rules.yaml".as_ref())
        .unwrap_err()
        .to_string();
    assert!(wrong.starts_with("/nowhere/rules.yaml: "), "{wrong}");
}

#[test]
fn parses_the_example_of_the_documentation() {
    let page = include_str!("../../../../docs/simulation.md");
    let (_, shown) = page.split_once("```yaml\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let rules = Rules::parse(shown).unwrap();
    assert_eq!(rules.node(1).and_then(|rule| rule.zone(1)), Some("zone-b"));
    assert_eq!(rules.pod(0).exit.map(|exit| exit.code), Some(3));
}
