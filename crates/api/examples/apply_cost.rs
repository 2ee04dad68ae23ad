//! What the tracking of fields costs: `cargo run --release -p k3-api --example apply_cost`.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use k3_api::{
    apply::{
        FieldSet,
        managed::{ApplyConflictPolicy, FieldManager, ResetFields, SingleVersion},
    },
    kinds::{Kind, builtin},
    time::Time,
};
use serde_json::{Value, json};

fn main() {
    pod();
    deployment();
}

fn pod() {
    let kind = builtin().resource("", "v1", "pods").expect("pods are built in");
    let reset = ResetFields::Fields(FieldSet::of_fields(&[&["status"]]));
    let status_reset = ResetFields::Fields(FieldSet::of_fields(&[&["spec"]]));
    let mut live = pod_object();
    println!("a pod of {} bytes", live.to_string().len());
    with(kind, "", &reset, |subject| {
        measure("pod, created", || {
            let mut new = live.clone();
            subject.track(None, &mut new, "kube-controller-manager", at(1));
            new
        });
        subject.track(None, &mut live, "kube-controller-manager", at(1));
    });
    let mut running = live.clone();
    running["metadata"]["uid"] = json!("u");
    running["status"] = pod_status("2026-01-01T00:00:00Z");
    with(kind, "status", &status_reset, |subject| {
        live["metadata"]["uid"] = json!("u");
        subject.track(Some(&live), &mut running, "kubelet", at(2));
    });
    let live = running;
    println!(
        "with status and a record of two managers: {} bytes",
        live.to_string().len()
    );
    let copy = cost(|| live.clone());
    with(kind, "", &reset, |subject| {
        let mut new = live.clone();
        new["metadata"]["labels"]["more"] = json!("1");
        measure_less("pod, a label added", copy, || {
            let mut new = new.clone();
            subject.track(Some(&live), &mut new, "kubectl-label", at(3));
            new
        });
        measure_less("pod, nothing changed", copy, || {
            let mut new = live.clone();
            subject.track(Some(&live), &mut new, "kubectl-label", at(3));
            new
        });
    });
    with(kind, "status", &status_reset, |subject| {
        let mut new = live.clone();
        new["status"] = pod_status("2026-01-01T00:00:09Z");
        measure_less("pod, status changed", copy, || {
            let mut new = new.clone();
            subject.track(Some(&live), &mut new, "kubelet", at(3));
            new
        });
    });
}

fn deployment() {
    let kind = builtin()
        .resource("apps", "v1", "deployments")
        .expect("deployments are built in");
    let reset = ResetFields::Fields(FieldSet::of_fields(&[&["status"]]));
    let mut configuration = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}},
    });
    let mut pod = pod_object()["spec"].take();
    for container in pod["containers"].as_array_mut().expect("a list") {
        for defaulted in [
            "terminationMessagePath",
            "terminationMessagePolicy",
            "imagePullPolicy",
        ] {
            container.as_object_mut().expect("an object").remove(defaulted);
        }
    }
    configuration["spec"]["template"]["spec"] = pod;
    with(kind, "", &reset, |subject| {
        println!("a deployment of {} bytes", configuration.to_string().len());
        let mut live = subject
            .apply(None, &configuration, "argocd", ApplyConflictPolicy::No, at(1))
            .expect("no conflicts");
        for container in live["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .expect("a list")
        {
            container["terminationMessagePath"] = json!("/dev/termination-log");
            container["terminationMessagePolicy"] = json!("File");
            container["imagePullPolicy"] = json!("IfNotPresent");
        }
        live["spec"]["strategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        live["spec"]["revisionHistoryLimit"] = json!(10);
        measure("deployment, applied again", || {
            subject
                .apply(None, &configuration, "argocd", ApplyConflictPolicy::No, at(1))
                .expect("no conflicts")
        });
        measure("deployment, applied again", || {
            subject
                .apply(
                    Some(&live),
                    &configuration,
                    "argocd",
                    ApplyConflictPolicy::No,
                    at(2),
                )
                .expect("no conflicts")
        });
        let mut other = configuration.clone();
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/web:2");
        measure("deployment, image changed", || {
            subject
                .apply(Some(&live), &other, "argocd", ApplyConflictPolicy::No, at(2))
                .expect("no conflicts")
        });
        let containers = other["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .expect("containers are a list");
        containers.pop();
        measure("deployment, container removed", || {
            subject
                .apply(Some(&live), &other, "argocd", ApplyConflictPolicy::No, at(2))
                .expect("no conflicts")
        });
    });
}

fn with(kind: &Kind, subresource: &str, reset: &ResetFields, run: impl FnOnce(FieldManager<'_>)) {
    let blank = Value::Object(kind.ty.zero());
    run(FieldManager {
        api_version: &kind.api_version(),
        kind: &kind.kind,
        subresource,
        typed: &kind.ty,
        blank: &blank,
        reset,
        versions: &SingleVersion,
    });
}

fn at(seconds: i64) -> Time {
    Time::from_unix(seconds, 0)
}

/// The middle of many runs: others use this machine, too.
fn cost<R>(mut run: impl FnMut() -> R) -> Duration {
    let mut times: Vec<Duration> = (0..2000)
        .map(|_| {
            let start = Instant::now();
            let result = black_box(run());
            let time = start.elapsed();
            drop(result);
            time
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn measure<R>(what: &str, run: impl FnMut() -> R) {
    measure_less(what, Duration::ZERO, run);
}

fn measure_less<R>(what: &str, copy: Duration, run: impl FnMut() -> R) {
    let time = cost(run).saturating_sub(copy);
    println!("{what:32} {:7.1} us", time.as_secs_f64() * 1e6);
}

fn pod_object() -> Value {
    let container = |name: &str| {
        let env: Vec<_> = (0..6)
            .map(|index| json!({"name": format!("VARIABLE_{index}"), "value": "some value"}))
            .collect();
        let probe = json!({"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "initialDelaySeconds": 5,
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        json!({
            "name": name, "image": "registry.example/web:1", "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/web"], "args": ["--listen", ":8080", "--verbose"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
            "env": env, "livenessProbe": probe, "readinessProbe": probe,
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}, {"name": "data", "mountPath": "/var/lib/web"}],
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-6c54bd5869-x2x7q", "generateName": "web-6c54bd5869-", "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "6c54bd5869"}, "annotations": {"example.com/checksum": "0123456789abcdef"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6c54bd5869", "uid": "r", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": [container("web"), container("sidecar"), container("proxy")],
            "initContainers": [{"name": "init", "image": "registry.example/init:1", "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"}],
            "volumes": [
                {"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                {"name": "data", "emptyDir": {}},
            ],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "web", "serviceAccount": "web",
            "nodeName": "node-1", "securityContext": {"runAsNonRoot": true}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending"},
    })
}

fn pod_status(since: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": since});
    let status = |name: &str| {
        json!({"name": name, "ready": true, "restartCount": 0, "started": true, "image": "registry.example/web:1",
            "imageID": "registry.example/web@sha256:0", "containerID": "containerd://0", "state": {"running": {"startedAt": since}}, "lastState": {}})
    };
    json!({
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}], "startTime": since, "qosClass": "Burstable",
        "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
        "containerStatuses": [status("web"), status("sidecar"), status("proxy")],
    })
}
