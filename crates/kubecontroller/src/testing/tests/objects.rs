//! Tests of writes, reads, lists, patches and deletions.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{super::FakeApi, code, deployment, deployments, map, maps};

#[tokio::test]
async fn object_is_created_once_and_read_back() {
    let api = FakeApi::new();
    let made = maps(&api)
        .create(&PostParams::default(), &map("a", &[]))
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.creation_timestamp.is_some());
    assert_eq!(maps(&api).get("a").await.unwrap(), made);
    let again = maps(&api).create(&PostParams::default(), &map("a", &[])).await;
    let kube::Error::Api(status) = again.unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (409, "configmaps \"a\" already exists")
    );
    let missing = maps(&api).get("b").await;
    let kube::Error::Api(status) = missing.unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (404, "configmaps \"b\" not found")
    );
}

#[tokio::test]
async fn generated_names_are_unique() {
    let api = FakeApi::new();
    let mut generated = map("", &[]);
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("x-".to_owned());
    for _ in 0..100 {
        maps(&api)
            .create(&PostParams::default(), &generated)
            .await
            .unwrap();
    }
    assert_eq!(api.list::<ConfigMap>().len(), 100);
    assert!(
        api.list::<ConfigMap>().iter().all(|map| map
            .metadata
            .name
            .as_ref()
            .is_some_and(|name| name.len() == 7))
    );
}

#[tokio::test]
async fn outdated_resource_version_conflicts() {
    let api = FakeApi::new();
    let old = api.put(&map("a", &[]));
    let mut new = old.clone();
    new.data = Some([("k".to_owned(), "v".to_owned())].into());
    let stored = maps(&api)
        .replace("a", &PostParams::default(), &new)
        .await
        .unwrap();
    assert_ne!(stored.metadata.resource_version, old.metadata.resource_version);
    assert_eq!(
        code(maps(&api).replace("a", &PostParams::default(), &new).await),
        409
    );
    let same = maps(&api)
        .replace("a", &PostParams::default(), &stored)
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version, stored.metadata.resource_version,
        "an update without changes keeps the resource version"
    );
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec() {
    let api = FakeApi::new();
    let mut made = deployments(&api)
        .create(&PostParams::default(), &deployment("d", 1))
        .await
        .unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    made.status = serde_json::from_value(json!({"replicas": 3})).unwrap();
    made.spec.replicas = Some(9);
    let after = deployments(&api)
        .replace_status("d", &PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(
        after.spec.replicas,
        Some(1),
        "a status update does not change the spec"
    );
    assert_eq!(
        (after.metadata.generation, after.status.as_ref().unwrap().replicas),
        (Some(1), Some(3))
    );
    made = after;
    made.status = None;
    made.spec.replicas = Some(2);
    let after = deployments(&api)
        .replace("d", &PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(
        (after.metadata.generation, after.status.unwrap().replicas),
        (Some(2), Some(3)),
        "an update of the object does not change the status"
    );
}

#[tokio::test]
async fn finalizers_delay_deletion() {
    let api = FakeApi::new();
    let mut object = map("a", &[]);
    object.metadata.finalizers = Some(vec!["x/y".to_owned()]);
    api.put(&object);
    let terminating = maps(&api)
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(terminating.metadata.deletion_timestamp.is_some());
    let mut more = terminating.clone();
    more.metadata.finalizers = Some(vec!["x/y".to_owned(), "z/z".to_owned()]);
    assert_eq!(
        code(maps(&api).replace("a", &PostParams::default(), &more).await),
        422
    );
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps(&api)
        .patch("a", &PatchParams::default(), &none)
        .await
        .unwrap();
    assert_eq!(code(maps(&api).get("a").await), 404);
}

#[tokio::test]
async fn deletion_checks_preconditions() {
    let api = FakeApi::new();
    let stored = api.put(&map("a", &[]));
    let preconditions = |uid: Option<String>, version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    assert_eq!(
        code(
            maps(&api)
                .delete("a", &preconditions(Some("other".to_owned()), None))
                .await
        ),
        409
    );
    assert_eq!(
        code(
            maps(&api)
                .delete("a", &preconditions(None, Some("1".to_owned())))
                .await
        ),
        409
    );
    let right = preconditions(stored.metadata.uid, stored.metadata.resource_version);
    assert!(
        maps(&api).delete("a", &right).await.unwrap().is_right(),
        "the response to a completed deletion is a Status"
    );
}

#[tokio::test]
async fn scheduled_pod_gets_grace_period() {
    let api = FakeApi::new();
    let pods: Api<Pod> = Api::namespaced(api.client(), "default");
    let pod = |name: &str| {
        serde_json::from_value::<Pod>(json!({"metadata": {"name": name}, "spec": {"containers": []}}))
            .unwrap()
    };
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let bind = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}});
    let body = serde_json::to_vec(&bind).unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/pods/b/binding")
        .body(body)
        .unwrap();
    api.client().request_text(request).await.unwrap();
    assert_eq!(
        pods.list(&ListParams::default().fields("spec.nodeName=n"))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    for name in ["a", "b"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    assert_eq!(api.list::<Pod>().len(), 1);
    pods.delete("b", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(api.list::<Pod>().is_empty());
}

#[tokio::test]
async fn pages_of_a_list_have_one_version() {
    let api = FakeApi::new();
    for name in ["a", "b", "c", "d"] {
        api.put(&map(name, &[("even", if name > "b" { "yes" } else { "no" })]));
    }
    let first = maps(&api).list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (3, Some(1))
    );
    api.remove::<ConfigMap>("default", "d");
    api.put(&map("e", &[]));
    let token = first.metadata.continue_.unwrap();
    let second = maps(&api)
        .list(&ListParams::default().limit(3).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(
        second
            .items
            .iter()
            .map(|map| map.metadata.name.clone().unwrap())
            .collect::<Vec<_>>(),
        ["d"]
    );
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    for (labels, count) in [
        ("even=yes", 1),
        ("even!=yes", 3),
        ("even", 3),
        ("!even", 1),
        ("even in (yes,no)", 3),
        ("even notin (no)", 2),
    ] {
        assert_eq!(
            maps(&api)
                .list(&ListParams::default().labels(labels))
                .await
                .unwrap()
                .items
                .len(),
            count,
            "{labels}"
        );
    }
    api.expire();
    assert_eq!(
        code(
            maps(&api)
                .list(&ListParams::default().continue_token(&token))
                .await
        ),
        410
    );
}

#[tokio::test]
async fn patches_are_applied() {
    let api = FakeApi::new();
    api.put(&map("a", &[("x", "1"), ("y", "2")]));
    let json = Patch::Json::<()>(serde_json::from_value(json!([{"op": "test", "path": "/metadata/labels/x", "value": "1"}, {"op": "remove", "path": "/metadata/labels/x"}])).unwrap());
    let after = maps(&api)
        .patch("a", &PatchParams::default(), &json)
        .await
        .unwrap();
    assert_eq!(after.metadata.labels.unwrap().len(), 1);
    assert_eq!(
        code(maps(&api).patch("a", &PatchParams::default(), &json).await),
        422,
        "the test operation fails"
    );
    let absent = json!([{"op": "test", "path": "/metadata/labels/x", "value": null}]);
    let absent = Patch::Json::<()>(serde_json::from_value(absent).unwrap());
    assert!(
        maps(&api)
            .patch("a", &PatchParams::default(), &absent)
            .await
            .is_ok()
    );
    let conditions = |kind: &str, status: &str| {
        Patch::Strategic(json!({"status": {"conditions": [{"type": kind, "status": status}]}}))
    };
    deployments(&api)
        .create(&PostParams::default(), &deployment("d", 1))
        .await
        .unwrap();
    for (kind, status) in [("A", "True"), ("B", "True"), ("A", "False")] {
        deployments(&api)
            .patch_status("d", &PatchParams::default(), &conditions(kind, status))
            .await
            .unwrap();
    }
    let found = deployments(&api)
        .get("d")
        .await
        .unwrap()
        .status
        .unwrap()
        .conditions
        .unwrap();
    assert_eq!(
        found
            .iter()
            .map(|one| format!(
                "{}={}",
                one.type_.as_deref().unwrap(),
                one.status.as_deref().unwrap()
            ))
            .collect::<Vec<_>>(),
        ["A=False", "B=True"]
    );
}

#[tokio::test]
async fn apply_owns_its_fields() {
    let api = FakeApi::new();
    let body = |labels: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": labels}}))
    };
    let by = PatchParams::apply;
    maps(&api)
        .patch("a", &by("one"), &body(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    maps(&api)
        .patch("a", &by("two"), &body(json!({"z": "2"})))
        .await
        .unwrap();
    assert_eq!(
        code(maps(&api).patch("a", &by("two"), &body(json!({"x": "2"}))).await),
        409
    );
    let after = maps(&api)
        .patch("a", &by("one"), &body(json!({"x": "1"})))
        .await
        .unwrap();
    let names: Vec<String> = after.metadata.labels.unwrap().into_keys().collect();
    assert_eq!(
        names,
        ["x", "z"],
        "fields that one no longer applies are removed, those of two are kept"
    );
    maps(&api)
        .patch("a", &by("two").force(), &body(json!({"x": "2"})))
        .await
        .unwrap();
}

#[tokio::test]
async fn discovery_lists_known_kinds() {
    let api = FakeApi::new();
    api.register::<Deployment>(crate::resource::ResourceScope::Namespaced);
    api.put(&map("a", &[]));
    let found = kube::Discovery::new(api.client()).run().await.unwrap();
    let (resource, _) = found
        .groups()
        .find(|group| group.name() == "apps")
        .unwrap()
        .recommended_kind("Deployment")
        .unwrap();
    assert_eq!(resource.plural, "deployments");
}

#[tokio::test]
async fn dependents_are_deleted_with_their_last_owner() {
    let api = FakeApi::new();
    api.collect_garbage();
    let owner = api.put(&map("owner", &[])).metadata;
    let uids = [
        ("one", vec![owner.uid.clone()]),
        ("two", vec![owner.uid, api.put(&map("other", &[])).metadata.uid]),
    ];
    for (name, owners) in uids {
        let owners: Vec<Value> = owners
            .into_iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid}))
            .collect();
        let mut dependent = map(name, &[]);
        dependent.metadata.owner_references = serde_json::from_value(owners.into()).unwrap();
        api.put(&dependent);
    }
    maps(&api)
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    let names: Vec<_> = api
        .list::<ConfigMap>()
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    assert_eq!(names, ["other", "two"]);
}
