use super::*;

#[test]
fn finds_kinds_by_kind_and_by_resource() {
    let by_kind = builtin().kind("apps", "v1", "Deployment").unwrap();
    let by_resource = builtin().resource("apps", "v1", "deployments").unwrap();
    assert!(std::ptr::eq(by_kind, by_resource));
    assert_eq!(
        (by_kind.api_version().as_str(), by_kind.list_kind().as_str()),
        ("apps/v1", "DeploymentList")
    );
    assert_eq!(builtin().resource("", "v1", "pods").unwrap().api_version(), "v1");
    assert!(builtin().kind("apps", "v1", "Pod").is_none());
    assert!(builtin().resource("", "v1", "pod").is_none());
}

#[test]
fn core_and_events_group_have_separate_event_kinds() {
    let old = builtin().kind("", "v1", "Event").unwrap();
    let new = builtin().kind("events.k8s.io", "v1", "Event").unwrap();
    assert!(old.ty.table() != new.ty.table());
}

#[test]
fn subresource_may_use_a_kind_of_another_group() {
    let scale = builtin()
        .resource("apps", "v1", "deployments")
        .unwrap()
        .subresource("scale")
        .unwrap();
    assert_eq!(
        (&*scale.group, &*scale.version, &*scale.kind),
        ("autoscaling", "v1", "Scale")
    );
    assert_eq!(scale.verbs, ["get", "patch", "update"]);
}

#[test]
fn only_stored_kinds_have_the_watch_verb() {
    let review = builtin()
        .kind("authorization.k8s.io", "v1", "SubjectAccessReview")
        .unwrap();
    assert_eq!(
        (review.persistence, review.allows("create"), review.allows("get")),
        (Persistence::Virtual, true, false)
    );
    for kind in builtin().all() {
        assert_eq!(
            kind.allows("watch"),
            kind.persistence == Persistence::Stored,
            "{}",
            kind.plural
        );
    }
}

#[test]
fn some_kinds_do_not_select_by_namespace() {
    let by_namespace = |group: &str, kind: &str| {
        let kind = builtin().kind(group, "v1", kind).unwrap();
        crate::strategy::for_kind(kind).selects_by_namespace()
    };
    assert!(by_namespace("", "Pod") && by_namespace("", "PersistentVolume"));
    for (group, kind) in [
        ("", "Node"),
        ("", "Namespace"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("resource.k8s.io", "ResourceSlice"),
    ] {
        assert!(!by_namespace(group, kind), "{kind}");
    }
}

/// An unknown mark, such as `shorts=`, would be ignored without an error.
#[test]
fn the_table_of_kinds_has_only_known_marks() {
    for line in include_str!("kinds.table")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("group "))
    {
        let columns = if line.starts_with(' ') { 3 } else { 5 };
        let marks: Vec<_> = line.split(' ').skip(columns).collect();
        for mark in &marks {
            let known = ["verbs=", "short=", "categories="]
                .iter()
                .any(|name| mark.starts_with(name));
            assert!(known, "{mark:?} in {line:?}");
        }
        assert!(
            marks.iter().any(|mark| mark.starts_with("verbs=")),
            "no verbs in {line:?}"
        );
    }
}

#[test]
fn resources_and_subresources_have_known_verbs_and_different_names() {
    let known = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let mut names = std::collections::BTreeSet::new();
    for kind in builtin().all() {
        let mut verbs = kind.verbs.clone();
        assert!(
            names.insert((kind.api_version(), kind.plural.to_string())),
            "{} twice",
            kind.plural
        );
        for subresource in &kind.subresources {
            let name = format!("{}/{}", kind.plural, subresource.name);
            assert!(
                names.insert((kind.api_version(), name)),
                "{}/{} twice",
                kind.plural,
                subresource.name
            );
            verbs.extend(&subresource.verbs);
        }
        for verb in verbs {
            assert!(known.contains(&verb), "{}: {verb}", kind.plural);
        }
    }
}
