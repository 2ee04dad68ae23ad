use std::sync::Arc;

use serde_json::{Value, json};

use super::{LatestRevision, RevisionList, beyond_limit};
use crate::objects::{ControllerRevision, Template};

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
    let mut template = template(image);
    template["$patch"] = "replace".into();
    let revision =
        json!({"metadata": {"name": name}, "revision": number, "data": {"spec": {"template": template}}});
    Arc::new(serde_json::from_value(revision).unwrap())
}

fn history(revisions: &[(&str, i64, &str)], image: &str) -> RevisionList {
    let revisions = revisions
        .iter()
        .map(|(name, number, image)| revision(name, *number, image));
    RevisionList::new(revisions.collect(), &Template::new(&template(image)).unwrap()).unwrap()
}

fn describe(newest: &LatestRevision) -> (&str, &str, i64) {
    match newest {
        LatestRevision::Current(revision) => ("is", &revision.metadata.name, revision.revision),
        LatestRevision::Renumber(revision, number) => ("renumber", &revision.metadata.name, *number),
        LatestRevision::Create(number) => ("make", "", *number),
    }
}

#[test]
fn finds_the_revision_of_the_template() {
    let cases: [(&[_], _); 6] = [
        (&[], ("make", "", 1)),
        (&[("a", 1, "one")], ("is", "a", 1)),
        (&[("b", 4, "two")], ("make", "", 5)),
        (&[("a", 1, "one"), ("b", 2, "two")], ("renumber", "a", 3)),
        (&[("a", 7, "one"), ("b", 2, "two")], ("is", "a", 7)),
        // Of two of the same template the newer one is kept.
        (
            &[("a", 1, "one"), ("z", 3, "one"), ("b", 2, "two")],
            ("is", "z", 3),
        ),
    ];
    for (revisions, expected) in cases {
        let history = history(revisions, "one");
        assert_eq!(describe(&history.latest()), expected, "{revisions:?}");
    }
}

#[test]
fn finds_duplicate_revisions() {
    let history = history(&[("z", 3, "one"), ("a", 1, "one"), ("b", 2, "two")], "one");
    let names = |revisions: Vec<&Arc<ControllerRevision>>| {
        let names = revisions
            .into_iter()
            .map(|revision| revision.metadata.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(history.duplicates().collect()), ["a".into()]);
    assert_eq!(names(history.other_revisions().collect()), ["b".into()]);
    assert_eq!(
        names(history.all.iter().collect()),
        ["a".into(), "b".into(), "z".into()]
    );
}

#[test]
fn deletes_oldest_unused_revisions_beyond_limit() {
    let all: Vec<_> = (1..=5)
        .map(|number| revision(&format!("r{number}"), number, "x"))
        .collect();
    let deleted = |limit: Option<i32>, live: &str| {
        let spare = beyond_limit(all.iter(), all.len(), limit, |revision| {
            *revision.metadata.name == *live
        });
        spare.iter().map(|revision| revision.revision).collect::<Vec<_>>()
    };
    assert_eq!(deleted(Some(3), ""), [1, 2]);
    assert_eq!(deleted(Some(3), "r1"), [2, 3]);
    assert_eq!(deleted(Some(5), ""), Vec::<i64>::new());
    assert_eq!(deleted(Some(0), "r5"), [1, 2, 3, 4]);
    assert_eq!(deleted(None, ""), Vec::<i64>::new());
    assert_eq!(deleted(Some(-1), ""), Vec::<i64>::new());
}
