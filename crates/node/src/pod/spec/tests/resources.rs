//! Cgroup limits and QoS classes.

use super::{
    super::{generate_container_resources, pod_resources},
    *,
};
use crate::runtime::ContainerResources;

fn resources_of(spec: Value) -> ContainerResources {
    let pod = pod(spec);
    generate_container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], &facts())
}

fn one(resources: Value) -> ContainerResources {
    resources_of(json!({"containers": [{"name": "a", "resources": resources}]}))
}

#[test]
fn cpu_becomes_shares_and_quota() {
    // Requests, limits, shares, quota.
    let cases = [
        (json!({}), json!({}), 2, None),
        (json!({"cpu": "0"}), json!({}), 2, None),
        (json!({"cpu": "1m"}), json!({}), 2, None),
        (json!({"cpu": "100m"}), json!({}), 102, None),
        (json!({"cpu": "1"}), json!({"cpu": "1500m"}), 1024, Some(150_000)),
        (json!({}), json!({"cpu": "500m"}), 512, Some(50_000)),
        (json!({"cpu": "1m"}), json!({"cpu": "1m"}), 2, Some(1000)),
        (json!({"cpu": "1000"}), json!({}), 262_144, None),
    ];
    for (requests, limits, shares, quota) in cases {
        let resources = one(json!({"requests": requests, "limits": limits}));
        assert_eq!(
            (resources.cpu_shares, resources.cpu_quota),
            (Some(shares), quota),
            "{requests} {limits}"
        );
        assert_eq!(resources.cpu_period, quota.map(|_| 100_000));
    }
}

#[test]
fn memory_and_hugepages_are_bytes() {
    let resources =
        one(json!({"limits": {"memory": "1Mi", "hugepages-2Mi": "4Mi", "hugepages-64Ki": "1Mi"}}));
    assert_eq!(resources.memory, Some(1 << 20));
    let pages: Vec<_> = resources.huge_pages.into_iter().collect();
    assert_eq!(pages, [("1GB".to_owned(), 0), ("2MB".to_owned(), 4 << 20)]);
    assert_eq!(one(json!({})).memory, None);
}

#[test]
fn pod_level_limits_apply_to_containers_without_limits() {
    let spec = |own: Value| {
        json!({
            "resources": {"limits": {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "2Mi"}},
            "containers": [{"name": "a", "resources": own}],
        })
    };
    let without = resources_of(spec(json!({})));
    assert_eq!(
        (without.cpu_quota, without.memory),
        (Some(200_000), Some(2 << 30))
    );
    assert_eq!(without.huge_pages["2MB"], 2 << 20);
    let with = resources_of(spec(
        json!({"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "0"}}),
    ));
    assert_eq!((with.cpu_quota, with.memory), (Some(100_000), Some(1 << 30)));
    assert_eq!(with.huge_pages["2MB"], 0);
}

#[test]
fn oom_score_depends_on_memory_requests() {
    let both = |memory: &str| json!({"requests": {"cpu": "1", "memory": memory}, "limits": {"cpu": "1", "memory": memory}});
    assert_eq!(one(json!({})).oom_score_adj, Some(1000));
    assert_eq!(one(both("100")).oom_score_adj, Some(-997));
    // Of a machine with 10,000 bytes.
    for (memory, score) in [("0", 999), ("1", 999), ("1000", 900), ("9990", 3), ("20000", 3)] {
        let resources = one(json!({"requests": {"cpu": "1", "memory": memory}}));
        assert_eq!(resources.oom_score_adj, Some(score), "{memory}");
    }
    let critical = resources_of(json!({"priority": 2_000_001_000, "containers": [{"name": "a"}]}));
    assert_eq!(critical.oom_score_adj, Some(-997));
    // The pod-level request beyond the containers' requests is divided equally.
    let requesting = |memory: &str| json!({"requests": {"memory": memory}});
    let with_pod_level_request = resources_of(json!({"resources": requesting("3000"), "containers": [
        {"name": "a", "resources": requesting("1000")}, {"name": "b"},
    ]}));
    assert_eq!(with_pod_level_request.oom_score_adj, Some(800));
    // A sidecar is killed no earlier than the containers it serves.
    let pod = pod(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "resources": requesting("1000")}],
    }));
    let sidecar = &pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[0];
    assert_eq!(
        generate_container_resources(&pod, sidecar, &facts()).oom_score_adj,
        Some(900)
    );
}

#[test]
fn node_wide_settings_apply_to_all_containers() {
    let mut facts = facts();
    facts.machine.pids_limit = Some(100);
    facts.machine.unified_cgroups = true;
    let pod = pod(json!({"containers": [{"name": "a"}]}));
    let resources = generate_container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], &facts);
    assert_eq!(resources.pids, Some(100));
    assert_eq!(resources.unified["memory.min"], "0");
}

#[test]
fn computes_the_qos_class() {
    let list = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let same = json!({"requests": list("1", "1Gi"), "limits": list("1000m", "1024Mi")});
    let less = json!({"requests": list("1", "1Gi"), "limits": list("2", "1Gi")});
    let containers = |all: Vec<&Value>| {
        let all = all
            .into_iter()
            .map(|resources| json!({"name": "x", "resources": resources}));
        json!({"containers": all.collect::<Vec<_>>()})
    };
    let with_own = |own: &Value, mut spec: Value| {
        spec["resources"] = own.clone();
        spec
    };
    let none = json!({});
    let cases = [
        (containers(vec![&none]), "BestEffort"),
        (containers(vec![&same]), "Guaranteed"),
        (containers(vec![&same, &same]), "Guaranteed"),
        (containers(vec![&same, &none]), "Burstable"),
        (containers(vec![&less]), "Burstable"),
        (
            containers(vec![&json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})]),
            "Burstable",
        ),
        (
            containers(vec![&json!({"limits": {"example.com/x": "1"}})]),
            "BestEffort",
        ),
        (with_own(&same, containers(vec![&none, &less])), "Guaranteed"),
        (with_own(&none, containers(vec![&less])), "Burstable"),
    ];
    for (spec, class) in cases {
        assert_eq!(pod_resources::pod_qos(&pod(spec.clone())), class, "{spec}");
    }
    let mut reported = pod(containers(vec![&none]));
    reported.status = Some(serde_json::from_value(json!({"qosClass": "Guaranteed"})).unwrap());
    assert_eq!(pod_resources::pod_qos(&reported), "Guaranteed");
}

#[test]
fn pod_requests_are_the_maximum_over_its_lifetime() {
    let requesting = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let pod = pod(json!({
        "overhead": {"cpu": "100m", "memory": "1Mi"},
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": requesting("500m")}, {"name": "i", "resources": requesting("3")},
        ],
        "containers": [{"name": "a", "resources": requesting("1")}, {"name": "b", "resources": requesting("1")}],
    }));
    let all = serde_json::to_value(pod_resources::pod_requests_and_limits(&pod)).unwrap();
    let expected = json!({"requests": {"cpu": "3600m", "memory": "1Mi"}, "limits": {"cpu": "3600m"}});
    assert_eq!(all, expected);
}

#[test]
fn running_pod_reports_enforced_resources() {
    let some = json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let other = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    let with = |containers: Value| {
        serde_json::to_value(pod_resources::enforced_resources(&pod(containers))).unwrap()
    };
    let containers = json!([{"name": "a", "resources": some}, {"name": "b", "resources": other}]);
    let expected = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}});
    assert_eq!(with(json!({"containers": containers})), expected);
    assert_eq!(with(json!({"containers": [{"name": "a"}]})), json!({}));
    let own = json!({"limits": {"memory": "4Gi"}, "requests": {"memory": "2Gi"}});
    let expected =
        json!({"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "2Gi"}});
    assert_eq!(
        with(json!({"containers": containers, "resources": own})),
        expected
    );
}
