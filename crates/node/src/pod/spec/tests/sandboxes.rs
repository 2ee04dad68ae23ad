//! Sandbox configuration: host names, DNS, ports and namespaces.

use super::{
    super::{dns_warnings, hosts_file},
    *,
};
use crate::runtime::{NamespaceMode, Protocol};

#[test]
fn sandbox_config_follows_the_pod_spec() {
    let config = sandbox_of(json!({
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}],
        "shareProcessNamespace": true,
        "securityContext": {
            "sysctls": [{"name": "net.core.somaxconn", "value": "9"}], "runAsUser": 5, "fsGroup": 7, "supplementalGroups": [8],
        },
        "containers": [
            {"name": "a", "ports": [
                {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}, {"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "UDP"},
            ]},
            {"name": "b", "securityContext": {"privileged": true}},
        ],
    }))
    .unwrap();
    assert_eq!((config.attempt, &*config.hostname), (2, "web"));
    assert_eq!(config.log_directory, Path::new("/logs/shop_web_u1"));
    assert_eq!(config.labels["app"], "web");
    assert_eq!(config.hosts[0].names, ["a", "b"]);
    assert_eq!(config.sysctls["net.core.somaxconn"], "9");
    assert_eq!(config.security.identity.user, Some(5));
    assert_eq!(config.security.identity.groups, [7, 8]);
    assert!(config.security.privileged);
    let ports: Vec<_> = config
        .ports
        .iter()
        .map(|port| (port.protocol, port.container_port, port.host_port))
        .collect();
    assert_eq!(ports, [(Protocol::Tcp, 80, 8080), (Protocol::Udp, 53, 0)]);
    assert_eq!(config.ports[0].host_ip, Some("127.0.0.1".parse().unwrap()));
}

#[test]
fn namespaces_follow_host_flags() {
    use NamespaceMode::{Container, Node, Pod};
    let cases = [
        (json!({}), (Pod, Container, Pod, Node)),
        (json!({"shareProcessNamespace": true}), (Pod, Pod, Pod, Node)),
        (
            json!({"hostPID": true, "shareProcessNamespace": true}),
            (Pod, Node, Pod, Node),
        ),
        (
            json!({"hostNetwork": true, "hostIPC": true}),
            (Node, Container, Node, Node),
        ),
        (json!({"hostUsers": false}), (Pod, Container, Pod, Pod)),
    ];
    for (mut spec, expected) in cases {
        spec["containers"] = json!([{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}]);
        let config = sandbox_of(spec.clone()).unwrap();
        assert_eq!(
            (config.network, config.process, config.ipc, config.users),
            expected,
            "{spec}"
        );
        assert_eq!(config.ports.is_empty(), config.network == Node);
    }
}

#[test]
fn hostname_follows_the_pod() {
    let long = "a".repeat(62) + "-b";
    let cases = [
        (json!({}), Ok("web")),
        (json!({"hostname": "h"}), Ok("h")),
        (json!({"hostname": "h", "subdomain": "s"}), Ok("h")),
        (
            json!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true}),
            Ok("h.s.shop.svc.cluster.local"),
        ),
        (json!({"setHostnameAsFQDN": true}), Ok("web")),
        (
            json!({"hostnameOverride": "x.y", "hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true}),
            Ok("x.y"),
        ),
        (json!({"hostNetwork": true, "hostname": "h"}), Ok("")),
        (
            json!({"hostname": "h", "subdomain": "s".repeat(50), "setHostnameAsFQDN": true}),
            Err("failed to construct FQDN from pod hostname and cluster domain"),
        ),
        (
            json!({"hostname": "A_"}),
            Err("pod Hostname \"A_\" is not a valid DNS label: a lowercase RFC 1123 label"),
        ),
    ];
    for (spec, expected) in cases {
        match (sandbox_of(spec.clone()), expected) {
            (Ok(config), Ok(name)) => assert_eq!(config.hostname, name, "{spec}"),
            (Err(error), Err(message)) => assert!(error.to_string().starts_with(message), "{error}"),
            (config, _) => panic!("{spec}: {config:?}"),
        }
    }
    let mut pod = pod(json!({}));
    pod.metadata.name = Some(long);
    let config = generate_pod_sandbox_config(&pod, &facts(), 0, Path::new("/")).unwrap();
    assert_eq!(config.hostname, "a".repeat(62));
}

#[test]
fn dns_policy_selects_name_servers() {
    let cluster = (
        vec!["10.96.0.10"],
        vec![
            "shop.svc.cluster.local",
            "svc.cluster.local",
            "cluster.local",
            "lan",
        ],
        vec!["ndots:5"],
    );
    let host = (vec!["9.9.9.9"], vec!["lan"], vec!["rotate", "timeout:1"]);
    let config = json!({
        "nameservers": ["1.1.1.1"], "searches": ["x", "lan"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    });
    let cases = [
        (json!({"dnsPolicy": "ClusterFirst"}), cluster.clone()),
        (
            json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}),
            host.clone(),
        ),
        (
            json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}),
            cluster.clone(),
        ),
        (json!({"dnsPolicy": "Default"}), host),
        (
            json!({"dnsPolicy": "None", "dnsConfig": config}),
            (vec!["1.1.1.1"], vec!["x", "lan"], vec!["edns0", "ndots:2"]),
        ),
        (
            json!({"dnsPolicy": "ClusterFirst", "dnsConfig": config}),
            (
                vec!["10.96.0.10", "1.1.1.1"],
                [cluster.1, vec!["x"]].concat(),
                vec!["edns0", "ndots:2"],
            ),
        ),
    ];
    for (spec, (servers, searches, options)) in cases {
        let dns = sandbox_of(spec.clone()).unwrap().dns.unwrap();
        assert_eq!(dns.servers, servers, "{spec}");
        assert_eq!(dns.searches, searches, "{spec}");
        assert_eq!(dns.options, options, "{spec}");
    }
}

#[test]
fn missing_cluster_dns_falls_back_with_a_warning() {
    let pod = pod(json!({"dnsPolicy": "ClusterFirst"}));
    let mut facts = facts();
    facts.cluster_dns.clear();
    let dns = generate_pod_sandbox_config(&pod, &facts, 0, Path::new("/"))
        .unwrap()
        .dns
        .unwrap();
    assert_eq!(dns.servers, ["9.9.9.9"]);
    let dns_warnings = dns_warnings(&pod, &facts);
    assert_eq!(dns_warnings.len(), 1);
    assert_eq!(dns_warnings[0].reason, "MissingClusterDNS");
    assert!(
        dns_warnings[0]
            .message
            .starts_with("pod: \"web_shop(u1)\". kubelet does not have ClusterDNS IP configured")
    );
    facts.machine.resolv_conf = None;
    let dns = generate_pod_sandbox_config(&pod, &facts, 0, Path::new("/"))
        .unwrap()
        .dns
        .unwrap();
    assert_eq!(
        (dns.servers, dns.searches),
        (vec!["127.0.0.1".to_owned()], vec![".".to_owned()])
    );
}

#[test]
fn dns_limits_are_enforced_with_a_warning() {
    let searches: Vec<_> = (0..40).map(|number| format!("s{number}")).collect();
    let servers = ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"];
    let many = pod(json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": servers, "searches": searches}}));
    let dns = generate_pod_sandbox_config(&many, &facts(), 0, Path::new("/"))
        .unwrap()
        .dns
        .unwrap();
    assert_eq!((dns.servers.len(), dns.searches.len()), (3, 32));
    let messages: Vec<_> = dns_warnings(&many, &facts())
        .into_iter()
        .map(|warning| warning.message)
        .collect();
    assert!(messages[0].ends_with("the applied nameserver line is: 1.0.0.1 1.0.0.2 1.0.0.3"));
    assert!(messages[1].starts_with("Search Line limits were exceeded, some search paths have been omitted"));

    let long: Vec<_> = (0..20).map(|number| format!("{number:0>200}")).collect();
    let searches = [long, vec!["x".repeat(254)]].concat();
    let long = pod(json!({"dnsPolicy": "None", "dnsConfig": {"searches": searches}}));
    let dns = generate_pod_sandbox_config(&long, &facts(), 0, Path::new("/"))
        .unwrap()
        .dns
        .unwrap();
    assert_eq!(dns.searches.len(), 10);
    assert!(dns.searches.join(" ").len() <= 2048);
}

#[test]
fn hosts_file_names_the_pod_and_its_aliases() {
    let spec = json!({"hostname": "h", "subdomain": "s", "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]});
    let ips = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
    let text = hosts_file(&pod(spec), &facts(), &ips, "").unwrap();
    let expected = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
                    ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n\
                    fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n\
                    10.0.0.7\th.s.shop.svc.cluster.local\th\nfd00::7\th.s.shop.svc.cluster.local\th\n\
                    \n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n";
    assert_eq!(text, expected);
    let text = hosts_file(&pod(json!({})), &facts(), &ips[..1], "").unwrap();
    assert!(text.ends_with("ip6-allrouters\n10.0.0.7\tweb\n"));
    let host_network = hosts_file(
        &pod(json!({"hostNetwork": true})),
        &facts(),
        &ips,
        "127.0.0.1 me\n",
    )
    .unwrap();
    assert_eq!(
        host_network,
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 me\n"
    );
}
