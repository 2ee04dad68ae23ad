//! Validation and table rows of the workloads.

use serde_json::{Value, json};

use super::strategy;
use crate::{
    kinds::builtin,
    strategy::{StrategyContext, Tree, TreeMut, User, WrittenPart, create, update},
    time::Time,
};

fn now() -> Time {
    Time::parse("2026-01-02T03:04:05Z").unwrap()
}

/// Creates an object of a kind; the error is the message of the status.
fn create_workload(kind: &str, spec: Value) -> Result<Value, String> {
    let mut object = json!({
        "metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-02T03:03:35Z"},
    });
    object.set("spec", spec);
    let spec = object.ensure_object("spec");
    spec.set_default("selector", json!({"matchLabels": {"app": "a"}}));
    let pod = json!({"containers": [{"name": "c", "image": "img:1"}, {"name": "d", "image": "img:2"}]});
    spec.set_default(
        "template",
        json!({"metadata": {"labels": {"app": "a"}}, "spec": pod}),
    );
    strategy(kind).unwrap().set_defaults(&mut object);
    run(kind, |at| create(&mut object, at).map(|_| ()))?;
    Ok(object)
}

fn update_workload(
    kind: &str,
    part: WrittenPart<'_>,
    old: &Value,
    change: impl Fn(&mut Value),
) -> Result<Value, String> {
    let mut new = old.clone();
    change(&mut new);
    run(kind, |at| update(&mut new, old, part, at).map(|_| ()))?;
    Ok(new)
}

fn run(
    kind: &str,
    operation: impl FnOnce(&StrategyContext<'_>) -> Result<(), crate::status::Status>,
) -> Result<(), String> {
    let user = User::default();
    let at = StrategyContext {
        kind: builtin().kind("apps", "v1", kind).unwrap(),
        now: now(),
        user: &user,
    };
    operation(&at).map_err(|status| {
        let status = status.to_value();
        let message = status.text("message");
        message.split_once("is invalid: ").unwrap().1.to_owned()
    })
}

#[test]
fn rejects_unknown_strategies_with_the_whole_value() {
    assert_eq!(
        create_workload("Deployment", json!({"strategy": {"type": "Now"}})).unwrap_err(),
        r#"spec.strategy: Unsupported value: {"Type":"Now","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#
    );
    assert_eq!(
        create_workload(
            "StatefulSet",
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}})
        )
        .unwrap_err(),
        r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":0,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#
    );
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": "10%"}}});
    assert_eq!(
        create_workload("DaemonSet", rolling).unwrap_err(),
        r#"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "10%": may not be set when maxUnavailable is non-zero"#
    );
}

#[test]
fn rejects_progress_deadline_not_above_min_ready_seconds() {
    assert_eq!(
        create_workload(
            "Deployment",
            json!({"minReadySeconds": 600, "progressDeadlineSeconds": 600})
        )
        .unwrap_err(),
        "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"
    );
}

#[test]
fn annotation_changes_of_a_deployment_raise_the_generation() {
    let old = create_workload("Deployment", json!({})).unwrap();
    let annotate = |object: &mut Value| {
        object
            .ensure_object("metadata")
            .ensure_object("annotations")
            .set("a", "b");
    };
    let generation = |part: WrittenPart<'_>| {
        let new = update_workload("Deployment", part, &old, annotate).unwrap();
        new.at("metadata").int("generation")
    };
    assert_eq!(generation(WrittenPart::Object), Some(2));
    assert_eq!(generation(WrittenPart::Status), Some(1));
}

#[test]
fn daemon_set_counts_template_changes() {
    let count = |object: &Value| {
        let annotations = object.at("metadata").at("annotations");
        annotations
            .text("deprecated.daemonset.template.generation")
            .to_owned()
    };
    let old = create_workload("DaemonSet", json!({})).unwrap();
    assert_eq!(count(&old), "1");
    let same = update_workload("DaemonSet", WrittenPart::Object, &old, |new| {
        new.ensure_object("metadata").remove("annotations");
        new.ensure_object("spec").set("minReadySeconds", 1);
    });
    assert_eq!(count(&same.unwrap()), "1");
    let other = update_workload("DaemonSet", WrittenPart::Object, &old, |new| {
        new.ensure_object("spec")
            .ensure_object("template")
            .ensure_object("spec")
            .set("hostNetwork", true);
    });
    assert_eq!(count(&other.unwrap()), "2");
}

#[test]
fn stateful_set_pods_may_mount_claim_template_volumes() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mounts = json!([{"name": "data", "mountPath": "/d"}]);
    let pod = json!({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "hostname": "Not A Name"});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let set = create_workload(
        "StatefulSet",
        json!({"serviceName": "s", "template": template, "volumeClaimTemplates": [claim]}),
    )
    .unwrap();
    assert_eq!(
        update_workload("StatefulSet", WrittenPart::Object, &set, |new| {
            new.ensure_object("spec").remove("volumeClaimTemplates");
            new.ensure_object("spec").set("serviceName", "t");
            new.ensure_object("spec").ensure_object("template").ensure_object("spec").remove("hostname");
            new.ensure_object("spec").ensure_object("template").ensure_object("spec").set("containers", json!([{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}]));
        })
        .unwrap_err(),
        r#"[spec.volumeClaimTemplates: Invalid value: []: field is immutable, spec.serviceName: Invalid value: "t": field is immutable]"#
    );
}

#[test]
fn rejects_inconsistent_status_counts() {
    let old = create_workload("ReplicaSet", json!({})).unwrap();
    assert_eq!(
        update_workload("ReplicaSet", WrittenPart::Status, &old, |new| {
            new.set(
                "status",
                json!({"replicas": 1, "availableReplicas": 2, "observedGeneration": -1}),
            );
        })
        .unwrap_err(),
        "[status.observedGeneration: Invalid value: -1: must be greater than or equal to 0, status.availableReplicas: \
         Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 2: cannot be \
         greater than readyReplicas]"
    );
}

#[test]
fn rows_show_replica_counts() {
    let row = |kind: &str, status: Value| {
        let mut object = create_workload(kind, json!({})).unwrap();
        object.set("status", status);
        json!(strategy(kind).unwrap().row(&object, now()).cells)
    };
    let pods = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1});
    assert_eq!(
        row("Deployment", pods.clone()),
        json!(["x", "2/1", 3, 1, "30s", "c,d", "img:1,img:2", "app=a"])
    );
    assert_eq!(
        row("ReplicaSet", pods.clone()),
        json!(["x", 1, 3, 2, "30s", "c,d", "img:1,img:2", "app=a"])
    );
    assert_eq!(
        row("StatefulSet", pods),
        json!(["x", "2/1", "30s", "c,d", "img:1,img:2"])
    );
    let nodes = json!({"desiredNumberScheduled": 5, "numberReady": 4});
    assert_eq!(
        row("DaemonSet", nodes),
        json!(["x", 5, 0, 4, 0, 0, "<none>", "30s", "c,d", "img:1,img:2", "app=a"])
    );
}
