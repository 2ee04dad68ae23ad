//! `k3 token create --join`: tokens for nodes.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Uri;
use k3_controllers::{JOIN_NODE_NAME_KEY, JOIN_USE_LIMIT_KEY, JOIN_USES_KEY};
use k8s_openapi::jiff::{Timestamp, Unit};
use kubecontroller::Clock;
use serde_json::{Value, json};

use super::{ApiClient, ServerFlags};
use crate::{
    command_error::CommandError,
    join::{CertificatePin, JoinToken},
};

/// The group of join tokens.
const GROUP: &str = "system:bootstrappers:k3:default-node-token";
const NODES: &str = "system:nodes";
const ROLE: &str = "k3:get-nodes";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/// The namespace of bootstrap token secrets.
pub(super) const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
/// The type of bootstrap token secrets.
pub(super) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
const SERVERS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Roles of groups: to request a certificate, to get it approved, to renew it, and to check whether a node name is in use.
const ROLE_BINDINGS: [(&str, &str, &str); 4] = [
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

/// The restrictions of a join token.
pub(super) struct JoinLimits {
    pub(super) ttl: Duration,
    /// The only node name; any if there is none.
    pub(super) node_name: Option<String>,
    /// Maximum number of nodes; unlimited if unset.
    pub(super) uses: Option<u32>,
}

/// A join token without its secret.
pub(super) struct JoinTokenSummary {
    pub(super) id: String,
    /// The user and its restrictions.
    pub(super) purpose: String,
    pub(super) groups: String,
    /// The expiration; `None` if it never expires.
    pub(super) expires: Option<String>,
}

/// The name of the secret of a token.
pub(super) fn secret_name(id: &str) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// Creates a token, and prints the command for the new machine.
pub(super) async fn run(flags: &ServerFlags, limits: &JoinLimits) -> Result<(), CommandError> {
    let config = flags.config().await?;
    let Some(authority) = config.root_cert.as_ref().and_then(|known| known.first()) else {
        return Err(CommandError::new(
            "the kubeconfig has no certificate authority, whose hash the token contains",
            "use one with certificate-authority-data, such as the admin.kubeconfig in the data directory",
        ));
    };
    let token = JoinToken::issue(CertificatePin::of_certificate(authority));
    let cluster = ApiClient::connect(flags).await?;
    for (path, object) in role_objects() {
        cluster.ensure(path, &object).await?;
    }
    let expires = expiry(limits.ttl);
    cluster
        .request("POST", SECRETS, Some(&secret(&token, &expires, limits)))
        .await?;
    let server = reachable(&cluster, &config.cluster_url).await;
    eprintln!("run this on the new machine before {expires}:");
    let name = limits
        .node_name
        .as_ref()
        .map(|name| format!(" --node-name {name}"));
    print_line!(
        "k3 node --server {server}{} --token {token}",
        name.unwrap_or_default()
    );
    Ok(())
}

/// The roles and role bindings for nodes that join, as kubeadm creates them.
fn role_objects() -> impl Iterator<Item = (&'static str, Value)> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    });
    let bindings = ROLE_BINDINGS.into_iter().map(|(name, role, group)| {
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

fn secret(token: &JoinToken, expires: &str, limits: &JoinLimits) -> Value {
    let mut secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(&token.id), "namespace": "kube-system"},
        "type": SECRET_TYPE,
        "stringData": {
            "description": "created by k3 token create --join",
            "token-id": token.id,
            "token-secret": token.secret(),
            "expiration": expires,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": GROUP,
        },
    });
    let data = &mut secret["stringData"];
    if let Some(name) = &limits.node_name {
        data[JOIN_NODE_NAME_KEY] = name.as_str().into();
    }
    if let Some(uses) = limits.uses {
        data[JOIN_USE_LIMIT_KEY] = uses.to_string().into();
    }
    secret
}

// --- JoinTokenSummary ---

impl JoinTokenSummary {
    /// Reads a secret; `None` if it is not a join token.
    pub(super) fn read(secret: &Value) -> Option<Self> {
        let text = |name: &str| {
            let encoded = secret.get("data")?.get(name)?.as_str()?;
            String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
        };
        if text("usage-bootstrap-authentication").as_deref() != Some("true") {
            return None;
        }
        Some(JoinTokenSummary {
            id: text("token-id")?,
            purpose: purpose(
                text(JOIN_NODE_NAME_KEY).as_deref(),
                text(JOIN_USE_LIMIT_KEY).as_deref(),
                &text(JOIN_USES_KEY).unwrap_or_default(),
            ),
            groups: text("auth-extra-groups").unwrap_or_default(),
            expires: text("expiration"),
        })
    }
}

/// Describes the user and the restrictions of a token.
fn purpose(node: Option<&str>, limit: Option<&str>, uses: &str) -> String {
    let name = node.map_or_else(String::new, |node| format!(" as {node}"));
    let used = uses.split(',').filter(|entry| !entry.is_empty()).count();
    let limit = limit.map_or_else(String::new, |limit| format!(" ({used} of {limit} uses)"));
    format!("nodes that join{name}{limit}")
}

fn expiry(ttl: Duration) -> String {
    let now = Timestamp::try_from(Clock::system().system_time()).unwrap_or_default();
    let end = now.saturating_add(ttl).unwrap_or(now);
    end.round(Unit::Second).unwrap_or(end).to_string()
}

/// The URL of the server for other machines. A kubeconfig may contain a loopback address.
async fn reachable(cluster: &ApiClient, known: &Uri) -> String {
    let is_local = ["127.", "localhost", "[::1]"]
        .iter()
        .any(|local| known.host().is_some_and(|host| host.starts_with(local)));
    if !is_local {
        return known.to_string().trim_end_matches('/').to_owned();
    }
    // No address of the server is known that other machines can reach.
    let servers = cluster.request("GET", SERVERS, None).await.unwrap_or_default();
    let port = known.port_u16().unwrap_or(443);
    // Of several servers, prefer the one with the same host as the kubeconfig.
    let subsets = servers.get("subsets").and_then(Value::as_array);
    let subset = subsets.into_iter().flatten().find(|subset| {
        let at = subset.pointer("/ports/0/port").and_then(Value::as_u64);
        at == Some(port.into())
    });
    let address = subset.and_then(|subset| subset.pointer("/addresses/0/ip")?.as_str());
    let host = match address {
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(address) => address.to_owned(),
        None => known.host().unwrap_or_default().to_owned(),
    };
    eprintln!(
        "note: the kubeconfig contains {known}; other machines reach the server at {host} only if it listens there (--bind 0.0.0.0)"
    );
    format!("https://{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_valid_bootstrap_tokens() {
        let token = JoinToken::issue(CertificatePin::of_certificate(b"certificate"));
        let limits = JoinLimits {
            ttl: Duration::from_hours(1),
            node_name: Some("n1".to_owned()),
            uses: Some(2),
        };
        let secret = secret(&token, "2026-01-01T00:00:00Z", &limits);
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
        assert_eq!(data["join-node-name"], "n1");
        assert_eq!(data["join-use-limit"], "2");
    }

    #[test]
    fn the_list_describes_restrictions() {
        assert_eq!(purpose(None, None, ""), "nodes that join");
        assert_eq!(
            purpose(Some("n1"), Some("3"), "u-1=n1"),
            "nodes that join as n1 (1 of 3 uses)"
        );
    }
}
