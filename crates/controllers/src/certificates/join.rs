//! The join policy: limits which CertificateSigningRequests of bootstrap users the approver (`approver.rs`) may approve. Upstream has
//! no such limits.
//!
//! Invariants:
//! - A bootstrap user gets no certificate for a node that exists or that is joining. Existing nodes renew their certificate as
//!   themselves. A node is joining while an approved request with a valid certificate exists for it. The cleaner deletes such a
//!   request when it is an hour old and the Node exists. So after `kubectl delete node x` a join token can get a certificate for
//!   `x` while the previous certificate is still valid: certificates cannot be revoked.
//! - The limits of a join token (node name, number of uses, expiry) are enforced on the server. A use is counted before the
//!   request is approved, and once per request, even if the process ends between the two writes.

use std::collections::HashMap;

use k3_api::{base64, name::validate_dns1123_subdomain};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    store::Index,
    store::Store,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde_json::{Value, json};

use super::{
    request::SigningRequest,
    subject::{KUBELET_CLIENT, NODE_PREFIX},
};
use crate::resource::{NODES, SECRETS};

/// The key in the Secret of a join token: the only node name that the token may be used for.
pub const JOIN_NODE_NAME_KEY: &str = "join-node-name";
/// The key in the Secret of a join token: how many nodes may join with it.
pub const JOIN_USE_LIMIT_KEY: &str = "join-use-limit";
/// The key in the Secret of a join token: the requests that were approved with it, as comma-separated `uid=node`.
pub const JOIN_USES_KEY: &str = "join-uses";

// upstream: plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go AuthenticateToken; it sets user name and group
const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";
const NAMESPACE: &str = "kube-system";
const ID_LETTERS: usize = 6;
/// The service account of approver and cleaner.
const ACCOUNT: &str = "certificate-controller";
const ROLE: &str = "k3.io:node-join-approver";

/// Decides whether the requests of bootstrap users may be approved.
pub(super) struct JoinPolicy {
    writer: ApiWriter,
    clock: Clock,
    requests: Store<SigningRequest>,
    by_node: Index<SigningRequest>,
    /// The requests that this process approved, by node name: the informer may not have received the approval yet. The lock is held
    /// until an approval is written (single flight): two requests for one node must not both be approved.
    approved: tokio::sync::Mutex<HashMap<String, Key>>,
}

/// Join requests are decided sequentially: the holder of this lock may approve what was allowed.
pub(super) type JoinGuard<'a> = tokio::sync::MutexGuard<'a, HashMap<String, Key>>;

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JoinDenial {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The limits of a join token, from its Secret.
#[derive(Debug, Default, PartialEq, Eq)]
struct TokenLimits {
    node: Option<String>,
    use_limit: Option<usize>,
    uses: Vec<String>,
    expires: Option<Timestamp>,
}

/// A decision, or the error of an API request that it depends on.
type JoinDecision = kube::Result<Result<(), JoinDenial>>;

// --- JoinPolicy ---

impl JoinPolicy {
    pub(super) fn new(writer: ApiWriter, clock: Clock, requests: Store<SigningRequest>) -> Self {
        JoinPolicy {
            writer,
            clock,
            by_node: requests.index(|request| client_node(request).into_iter().collect()),
            requests,
            approved: tokio::sync::Mutex::default(),
        }
    }

    /// Locks the policy. The caller keeps the lock until the decision is written.
    pub(super) async fn lock(&self) -> JoinGuard<'_> {
        self.approved.lock().await
    }

    /// Decides whether a request may be approved. Requests of other than bootstrap users are not restricted.
    pub(super) async fn decide(
        &self,
        request: &SigningRequest,
        approved: &mut JoinGuard<'_>,
    ) -> JoinDecision {
        if !is_joining(request) {
            return Ok(Ok(()));
        }
        let Some(node) = client_node(request) else {
            return Ok(Err(JoinDenial::new("InvalidRequest", "it names no node")));
        };
        if !validate_dns1123_subdomain(&node).is_empty() {
            let message = format!("{node:?} is not a valid node name");
            return Ok(Err(JoinDenial::new("InvalidNodeName", message)));
        }
        if let Some(denial) = self.check_joining(request, &node, approved) {
            return Ok(Err(denial));
        }
        if node_exists(&self.writer, &node).await? {
            let message = format!(
                "node {node:?} exists: a join token does not give out the identity of a node that exists; \
                 choose another node name, or delete the Node if its machine no longer exists"
            );
            return Ok(Err(JoinDenial::new("NodeExists", message)));
        }
        let decided = match request.spec.username.strip_prefix(USER_PREFIX) {
            Some(id) => self.use_token(id, request, &node).await?,
            None => Ok(()),
        };
        if decided.is_ok() {
            approved.insert(node, Key::new("", &request.metadata.name));
        }
        Ok(decided)
    }

    /// Denies the request if another request for the same node was approved and its certificate is still valid.
    fn check_joining(
        &self,
        request: &SigningRequest,
        node: &str,
        approved: &mut JoinGuard<'_>,
    ) -> Option<JoinDenial> {
        let own_key = Key::new("", &request.metadata.name);
        let is_pending_or_approved =
            |key: &Key| self.requests.get(key).is_some_and(|other| !other.is_denied());
        if approved.get(node).is_some_and(|key| !is_pending_or_approved(key)) {
            // The request was deleted or denied: the node name may be used again.
            approved.remove(node);
        }
        let now = self.clock.now();
        let is_valid = |other: &SigningRequest| {
            let ends = certificate_end(other);
            other.is_approved()
                && !other.is_denied()
                && !other.has_failed()
                && ends.is_none_or(|end| end > now)
        };
        let mut others = self.by_node.get(node).into_iter();
        let from_informer = others
            .find(|other| other.metadata.name != request.metadata.name && is_valid(other))
            .map(|other| other.metadata.name.to_string());
        let from_this_process = approved.get(node).filter(|key| **key != own_key);
        let name = from_informer.or_else(|| from_this_process.map(|key| key.name().to_owned()))?;
        let message = format!(
            "a certificate for node {node:?} was issued for the request {name:?} and is still valid; choose another node \
             name, or, if the machine that has it must not use it, `kubectl delete csr {name}`"
        );
        Some(JoinDenial::new("CertificateIssued", message))
    }

    /// Checks the limits of a join token, and records the use in its Secret.
    async fn use_token(&self, id: &str, request: &SigningRequest, node: &str) -> JoinDecision {
        let is_id = id.len() == ID_LETTERS
            && id
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let absent = || JoinDenial::new("TokenNotFound", "the join token was revoked or has expired");
        if !is_id {
            return Ok(Err(absent()));
        }
        let name = format!("bootstrap-token-{id}");
        let object_ref = ObjectRef::new(&SECRETS, NAMESPACE, &name);
        let mut secret: Value = match self.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(Err(absent())),
            other => other?,
        };
        let Some(limits) = TokenLimits::read(&secret) else {
            let message = format!("the limits in the Secret {NAMESPACE}/{name} are invalid");
            return Ok(Err(JoinDenial::new("InvalidToken", message)));
        };
        let entry = format!("{}={node}", request.metadata.uid);
        if let Err(denial) = limits.check(node, &entry, self.clock.now()) {
            return Ok(Err(denial));
        }
        if limits.use_limit.is_some() && !limits.uses.contains(&entry) {
            let mut uses = limits.uses;
            uses.push(entry);
            // The update contains the resourceVersion that was read. On a conflict the reconciler decides again, with the uses that
            // another process has recorded.
            secret["data"][JOIN_USES_KEY] = base64::encode(uses.join(",").as_bytes()).into();
            self.writer.update::<Value>(object_ref, &secret).await?;
        }
        Ok(Ok(()))
    }
}

// --- JoinDenial ---

impl JoinDenial {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        JoinDenial {
            reason,
            message: message.into(),
        }
    }
}

// --- TokenLimits ---

impl TokenLimits {
    /// Returns `None` if the Secret is invalid; the request is then denied.
    fn read(secret: &Value) -> Option<Self> {
        let text = |key: &str| match secret["data"][key].as_str() {
            None | Some("") => Some(None),
            Some(text) => String::from_utf8(base64::decode(text).ok()?).ok().map(Some),
        };
        let uses = text(JOIN_USES_KEY)?.unwrap_or_default();
        Some(TokenLimits {
            node: text(JOIN_NODE_NAME_KEY)?,
            use_limit: text(JOIN_USE_LIMIT_KEY)?
                .map(|limit| limit.parse())
                .transpose()
                .ok()?,
            uses: uses
                .split(',')
                .filter(|entry| !entry.is_empty())
                .map(ToOwned::to_owned)
                .collect(),
            expires: text("expiration")?.map(|time| time.parse()).transpose().ok()?,
        })
    }

    fn check(&self, node: &str, entry: &str, now: Timestamp) -> Result<(), JoinDenial> {
        if self.expires.is_some_and(|end| end <= now) {
            return Err(JoinDenial::new("TokenExpired", "the join token has expired"));
        }
        if let Some(bound) = self.node.as_deref().filter(|bound| *bound != node) {
            let message = format!("the join token is for node {bound:?}, not for node {node:?}");
            return Err(JoinDenial::new("NodeNameMismatch", message));
        }
        let is_counted = self.uses.iter().any(|known| known == entry);
        match self.use_limit {
            Some(limit) if !is_counted && self.uses.len() >= limit => {
                let message = format!(
                    "the join token was used {} times, which is its limit",
                    self.uses.len()
                );
                Err(JoinDenial::new("TokenUsed", message))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the user of a request is a bootstrap user: with a join token, or another member of `system:bootstrappers`.
pub(super) fn is_joining(request: &SigningRequest) -> bool {
    let spec = &request.spec;
    spec.username.starts_with(USER_PREFIX) || spec.groups.iter().any(|group| &**group == GROUP)
}

/// The node name in a request for a kubelet client certificate.
pub(super) fn client_node(request: &SigningRequest) -> Option<String> {
    if &*request.spec.signer_name != KUBELET_CLIENT {
        return None;
    }
    let certificate_request = k3_api::kinds::parse_certificate_request(&request.spec.request).ok()?;
    Some(
        certificate_request
            .identity()
            .common_name
            .strip_prefix(NODE_PREFIX)?
            .to_owned(),
    )
}

/// The expiry of the issued certificate; `None` if there is none or it cannot be parsed.
pub(super) fn certificate_end(request: &SigningRequest) -> Option<Timestamp> {
    let end = k3_api::kinds::certificate_not_after(&request.status.certificate)?;
    end.to_string().parse().ok()
}

/// Reads the Node from the API server, because an informer may be behind. `name` must be a valid node name.
pub(super) async fn node_exists(writer: &ApiWriter, name: &str) -> kube::Result<bool> {
    match writer.get::<Value>(ObjectRef::new(&NODES, "", name)).await {
        Err(error) if has_status_code(&error, 404) => Ok(false),
        other => other.map(|_| true),
    }
}

/// The RBAC objects that the approver needs beyond its upstream role, with the paths to create them at: reading Nodes, and
/// counting the uses of join tokens.
pub fn join_approver_roles() -> [(&'static str, Value); 4] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let metadata = json!({"name": ROLE});
    let local = json!({"name": ROLE, "namespace": NAMESPACE});
    let subjects = json!([{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}]);
    let version = format!("{GROUP}/v1");
    [
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata,
                "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata, "subjects": subjects,
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
            json!({"apiVersion": version, "kind": "Role", "metadata": local,
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"]}]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
            json!({"apiVersion": version, "kind": "RoleBinding", "metadata": local, "subjects": subjects,
                "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": ROLE}}),
        ),
    ]
}
