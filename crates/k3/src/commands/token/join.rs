//! `k3 token create --join`: what a machine needs to become a node.

use std::time::Duration;

use http::Uri;
use k3_storage::{Clock, SystemClock};
use k8s_openapi::jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use super::{Cluster, ServerFlags};
use crate::{
    failure::Failure,
    join::{JoinToken, Pin},
};

/// Those who join with such a token.
const GROUP: &str = "system:bootstrappers:k3:default-node-token";
const NODES: &str = "system:nodes";
const ROLE: &str = "k3:get-nodes";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const SERVERS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Which group has which role: to ask for a certificate, to get it, to get the next one, and to see whether a name is taken.
const RIGHTS: [(&str, &str, &str); 4] = [
    ("k3:node-bootstrapper", "system:node-bootstrapper", GROUP),
    (
        "k3:node-autoapprove-bootstrap",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        GROUP,
    ),
    (
        "k3:node-autoapprove-renewal",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        NODES,
    ),
    (ROLE, ROLE, GROUP),
];

/// Makes a token, and prints the command by which a machine joins.
pub(super) async fn run(flags: &ServerFlags, ttl: Duration) -> Result<(), Failure> {
    let config = flags.config().await?;
    let Some(authority) = config.root_cert.as_ref().and_then(|known| known.first()) else {
        return Err(Failure::new(
            "the kubeconfig names no authority, which the token has to name",
            "use one with certificate-authority-data, such as the admin.kubeconfig in the data folder",
        ));
    };
    let token = JoinToken::issue(Pin::of(authority));
    let cluster = Cluster::find(flags).await?;
    for (path, object) in rights() {
        cluster.ensure(path, &object).await?;
    }
    let expires = expiry(ttl);
    cluster
        .ask("POST", SECRETS, Some(&secret(&token, &expires)))
        .await?;
    let server = reachable(&cluster, &config.cluster_url).await?;
    eprintln!("on the machine that is to join, until {expires}:");
    println!("k3 node --server {server} --token {token}");
    Ok(())
}

/// What lets those who have a token join. Upstream's tools make the like.
fn rights() -> impl Iterator<Item = (&'static str, Value)> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    });
    let bindings = RIGHTS.into_iter().map(|(name, role, group)| {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        });
        (BINDINGS, binding)
    });
    std::iter::once((ROLES, role)).chain(bindings)
}

fn secret(token: &JoinToken, expires: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("bootstrap-token-{}", token.id), "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "description": "made by k3 token create --join",
            "token-id": token.id,
            "token-secret": token.secret(),
            "expiration": expires,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": GROUP,
        },
    })
}

fn expiry(ttl: Duration) -> String {
    let now = Timestamp::try_from(SystemClock.now()).unwrap_or_default();
    let end = now.saturating_add(ttl).unwrap_or(now);
    end.round(Unit::Second).unwrap_or(end).to_string()
}

/// Where other machines find the server. That a kubeconfig names this machine alone says nothing about them.
async fn reachable(cluster: &Cluster, known: &Uri) -> Result<String, Failure> {
    let is_local = ["127.", "localhost", "[::1]"]
        .iter()
        .any(|local| known.host().is_some_and(|host| host.starts_with(local)));
    if !is_local {
        return Ok(known.to_string().trim_end_matches('/').to_owned());
    }
    let servers = cluster.ask("GET", SERVERS, None).await?;
    let address = servers
        .pointer("/subsets/0/addresses/0/ip")
        .and_then(Value::as_str);
    let port = known.port_u16().unwrap_or(443);
    let host = match address {
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(address) => address.to_owned(),
        None => known.host().unwrap_or_default().to_owned(),
    };
    eprintln!(
        "note: the kubeconfig names {known}; others reach the server at {host} only if it listens there (--bind 0.0.0.0)"
    );
    Ok(format!("https://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_to_the_cluster_as_any_bootstrap_token() {
        let token = JoinToken::issue(Pin::of(b"certificate"));
        let secret = secret(&token, "2026-01-01T00:00:00Z");
        let data = &secret["stringData"];
        assert_eq!(
            format!(
                "{}.{}",
                data["token-id"].as_str().unwrap(),
                data["token-secret"].as_str().unwrap()
            ),
            token.bearer()
        );
        assert_eq!(
            secret["metadata"]["name"],
            format!("bootstrap-token-{}", token.id)
        );
        assert!(
            data["auth-extra-groups"]
                .as_str()
                .unwrap()
                .starts_with("system:bootstrappers:")
        );
    }
}
