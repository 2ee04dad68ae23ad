use super::*;
use crate::status::Status;

fn service(spec: impl Into<Value>) -> Value {
    let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec.into(), "status": {"loadBalancer": {}}});
    Service.set_defaults(&mut service);
    service
}

fn messages(judge: impl Fn(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    judge(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn refusal(result: Result<(), Status>) -> String {
    result.expect_err("it is refused").message
}

const DUAL: Ranges = Ranges {
    primary: Family::V4,
    dual: true,
};

#[test]
fn defaults_depend_on_the_type() {
    assert_eq!(
        service(json!({"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}))["spec"],
        json!({
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "type": "ClusterIP", "internalTrafficPolicy": "Cluster",
        })
    );
    assert_eq!(
        service(json!({"type": "LoadBalancer"}))["spec"],
        json!({
            "type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
            "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
        })
    );
    let named = service(json!({"type": "ExternalName", "sessionAffinityConfig": {}}));
    assert_eq!(
        named["spec"],
        json!({"type": "ExternalName", "sessionAffinity": "None"})
    );
}

#[test]
fn ports_are_told_apart() {
    let service = service(json!({"type": "NodePort", "ports": [
        {"port": 80, "name": "a", "nodePort": 30000},
        {"port": 80, "name": "a", "nodePort": 30000},
    ]}));
    assert_eq!(
        messages(|errors| judgement::judge(errors, &service, None)),
        [
            "spec.ports[1].name: Duplicate value: \"a\"",
            "spec.ports[1].nodePort: Duplicate value: 30000",
            "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\
             \"TargetPort\":0,\"NodePort\":0}",
        ]
    );
}

#[test]
fn addresses_and_families_fit_together() {
    let judged = |spec: Value| messages(|errors| cluster_ips::judge(errors, &json!({"spec": spec}), None));
    assert!(judged(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]})).is_empty());
    assert_eq!(
        judged(
            json!({"clusterIPs": ["None", "x"], "ipFamilies": ["IPv4", "IPv4", "X"], "ipFamilyPolicy": "Y"})
        ),
        [
            "spec.clusterIPs: Invalid value: [\"None\",\"x\"]: must be empty when `clusterIP` is not specified",
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
            "spec.ipFamilies[2]: Unsupported value: \"X\": supported values: \"IPv4\", \"IPv6\"",
            "spec.ipFamilyPolicy: Unsupported value: \"Y\": supported values: \"PreferDualStack\", \
             \"RequireDualStack\", \"SingleStack\"",
            "spec.clusterIPs: Invalid value: [\"None\",\"x\"]: 'None' must be the first and only value",
            "spec.clusterIPs[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ]
    );
    assert_eq!(
        judged(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"]})),
        [
            "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"
        ]
    );
}

#[test]
fn a_new_service_is_settled_by_what_the_cluster_has() {
    let settled = |spec: Value, ranges| {
        let mut service = service(spec);
        settle_new(&mut service, ranges).map(|()| {
            let spec = &service["spec"];
            (spec["ipFamilies"].clone(), spec["ipFamilyPolicy"].clone())
        })
    };
    let single = Ranges::default();
    let four = || (json!(["IPv4"]), json!("SingleStack"));
    let both = |policy: &str| (json!(["IPv4", "IPv6"]), json!(policy));
    assert_eq!(settled(json!({}), single).unwrap(), four());
    assert_eq!(settled(json!({"clusterIP": "10.0.0.1"}), DUAL).unwrap(), four());
    assert_eq!(
        settled(json!({"clusterIP": "None", "selector": {"a": "b"}}), single).unwrap(),
        four()
    );
    assert_eq!(
        settled(json!({"clusterIP": "None"}), single).unwrap(),
        both("RequireDualStack")
    );
    let prefers = json!({"ipFamilyPolicy": "PreferDualStack"});
    assert_eq!(settled(prefers.clone(), DUAL).unwrap(), both("PreferDualStack"));
    assert_eq!(settled(prefers, single).unwrap().0, json!(["IPv4"]));
    let message = |spec: Value| settled(spec, single).unwrap_err().message;
    assert_eq!(
        message(json!({"ipFamilyPolicy": "RequireDualStack"})),
        "Service \"s\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not \
         configured for dual-stack services"
    );
    assert_eq!(
        message(json!({"clusterIP": "fd00::1"})),
        "Service \"s\" is invalid: spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this \
         cluster"
    );
    assert_eq!(
        message(json!({"ipFamilies": ["IPv6"]})),
        "Service \"s\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
    );
}

#[test]
fn a_change_keeps_what_the_server_gave() {
    let old = service(json!({
        "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 90, "nodePort": 30002}],
    }));
    let mut new = service(json!({
        "type": "NodePort",
        "ports": [{"name": "b", "port": 91}, {"name": "c", "port": 80, "nodePort": 30001}, {"name": "a", "port": 81}],
    }));
    settle_change(&mut new, &old, Ranges::default()).unwrap();
    let spec = &new["spec"];
    assert_eq!(
        (&spec["clusterIP"], &spec["clusterIPs"]),
        (&json!("10.0.0.1"), &json!(["10.0.0.1"]))
    );
    assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    let ports: Vec<_> = spec["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| &port["nodePort"])
        .collect();
    assert_eq!(ports, [&json!(30002), &json!(30001), &Value::Null]);
    let mut moved = service(json!({"type": "NodePort", "clusterIP": "10.0.0.2", "ports": [{"port": 80}]}));
    settle_change(&mut moved, &old, Ranges::default()).unwrap();
    assert_eq!(moved["spec"]["clusterIPs"], json!(["10.0.0.2"]));
    assert!(
        messages(|errors| transition::judge(errors, &moved, &old)).contains(
            &"spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set".to_owned()
        )
    );
}

#[test]
fn the_second_address_comes_and_goes_by_policy() {
    let mut old = service(json!({
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack",
    }));
    let mut new = old.clone();
    new["spec"]["ipFamilyPolicy"] = json!("SingleStack");
    settle_change(&mut new, &old, DUAL).unwrap();
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(addresses(Some(&new), Some(&old)).release, ["fd00::1"]);
    let mut fewer = old.clone();
    fewer["spec"]["clusterIPs"] = json!(["10.0.0.1"]);
    assert!(
        refusal(settle_change(&mut fewer, &old, DUAL))
            .ends_with("must be 'SingleStack' to release the secondary cluster IP")
    );
    std::mem::swap(&mut old, &mut new);
    settle_change(&mut new, &old, DUAL).unwrap();
    let wanted = addresses(Some(&new), Some(&old)).take;
    assert_eq!(wanted.len(), 1);
    assert_eq!((wanted[0].index, wanted[0].family), (1, Family::V6));
}

#[test]
fn addresses_are_given_to_services_that_have_some() {
    let mut new = service(json!({}));
    settle_new(&mut new, Ranges::default()).unwrap();
    let take = addresses(Some(&new), None).take;
    assert_eq!(
        take,
        [Address {
            index: 0,
            family: Family::V4,
            wanted: None
        }]
    );
    put_address(&mut new, 0, "10.0.0.9");
    assert_eq!(
        (&new["spec"]["clusterIP"], &new["spec"]["clusterIPs"]),
        (&json!("10.0.0.9"), &json!(["10.0.0.9"]))
    );
    assert_eq!(addresses(None, Some(&new)).release, ["10.0.0.9"]);
    let named = service(json!({"type": "ExternalName"}));
    assert_eq!(addresses(Some(&named), Some(&new)).release, ["10.0.0.9"]);
    let headless = service(json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"]}));
    assert_eq!(addresses(Some(&headless), None), AddressChanges::default());
}

#[test]
fn protocols_of_a_port_share_a_port_on_nodes() {
    let new = service(json!({"type": "NodePort", "ports": [
        {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "nodePort": 30000},
    ]}));
    let changes = node_ports(Some(&new), None).unwrap();
    assert_eq!(
        changes.take,
        [(0, Want::Any), (1, Want::SameAs(0)), (2, Want::Number(30000))]
    );
    let balanced = service(json!({
        "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local",
        "ports": [{"port": 80}],
    }));
    let changes = node_ports(Some(&balanced), None).unwrap();
    assert_eq!((changes.take.len(), changes.health), (0, Some(Want::Any)));
}

#[test]
fn ports_on_nodes_follow_a_change() {
    let old = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}));
    let new = service(json!({"type": "NodePort", "ports": [
        {"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30001, "protocol": "UDP"}, {"port": 82},
    ]}));
    let changes = node_ports(Some(&new), Some(&old)).unwrap();
    assert_eq!(changes.take, [(0, Want::Number(30001)), (2, Want::Any)]);
    assert_eq!(changes.release, [30000]);
    let inside = service(json!({"ports": [{"port": 80}]}));
    assert_eq!(node_ports(Some(&inside), Some(&old)).unwrap().release, [30000]);
    let twice = service(
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 3}, {"port": 81, "nodePort": 3}]}),
    );
    assert_eq!(
        node_ports(Some(&twice), Some(&old)).unwrap_err().message,
        "duplicate nodePort: {TCP 3}"
    );
}

#[test]
fn a_change_of_type_drops_what_does_not_apply() {
    let old = service(json!({
        "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
        "loadBalancerClass": "a.b/c", "ports": [{"port": 80, "nodePort": 30000}],
    }));
    let mut new = old.clone();
    new["spec"]["type"] = json!("ExternalName");
    new["status"]["loadBalancer"] = json!({"ingress": [{"ip": "1.2.3.4"}]});
    transition::drop_what_no_longer_applies(&mut new, &old);
    assert_eq!(
        new["spec"],
        json!({
            "type": "ExternalName", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        })
    );
    assert_eq!(new["status"]["loadBalancer"], json!({}));
    let mut changed = old.clone();
    changed["spec"]["type"] = json!("ClusterIP");
    changed["spec"]["ports"][0]["nodePort"] = json!(30001);
    transition::drop_what_no_longer_applies(&mut changed, &old);
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], 30001);
}

#[test]
fn load_balancers_tell_addresses_or_names() {
    let old = service(json!({"type": "LoadBalancer"}));
    let with = |ingress: Value| {
        let mut new = old.clone();
        new["status"]["loadBalancer"] = json!({"ingress": [ingress]});
        messages(|errors| judgement::load_balancer(errors, &new, &old))
    };
    assert!(with(json!({"ip": "1.2.3.4", "ipMode": "VIP"})).is_empty());
    assert_eq!(
        with(json!({"hostname": "1.2.3.4", "ipMode": "X"})),
        [
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP \
             address",
        ]
    );
    assert_eq!(
        with(json!({"ip": "1.2.3.4"})),
        ["status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set"]
    );
}

#[test]
fn rows_show_where_a_service_is() {
    let shown = |service: &Value| -> Vec<Value> { Service.row(service, Time::from_unix(0, 0)).cells };
    let mut balanced = service(json!({
        "type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "selector": {"b": "2", "a": "1"},
        "ports": [{"port": 80, "nodePort": 30000}, {"port": 53, "protocol": "UDP"}],
    }));
    assert_eq!(
        shown(&balanced),
        [
            "s",
            "LoadBalancer",
            "10.0.0.1",
            "<pending>",
            "80:30000/TCP,53/UDP",
            "<unknown>",
            "a=1,b=2"
        ]
    );
    balanced["status"]["loadBalancer"]["ingress"] = json!([{"hostname": "h"}, {"ip": "1.1.1.1"}]);
    assert_eq!(shown(&balanced)[3], "1.1.1.1,h");
    assert_eq!(
        shown(&service(json!({"type": "ExternalName", "externalName": "e"})))[2..5],
        ["<none>", "e", "<none>"]
    );
}
