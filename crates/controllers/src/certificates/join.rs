//! What a join token may have approved: the identity of one new node.
//!
//! Invariants:
//! - No token gets the identity of a node that exists, or whose joining is under way, with a token: a node renews its certificate
//!   in its own name. Joining is under way while an approved request for the node exists whose certificate is valid. Such a
//!   request is deleted when it is an hour old and the Node exists. So after `kubectl delete node x` a token may get a certificate for `x`, while
//!   the certificate that was issued before is valid too: certificates cannot be revoked.
//! - The limits of a token (node name, number of uses, expiry) are enforced here, whatever its bearer does. A use is counted
//!   before a request is approved, and once for each request, also when this process ends in between.

// upstream: pkg/controller/certificates/approver/sarapprove.go handle; the limits of join tokens are k3's own

use std::collections::HashMap;

use k3_api::{base64, name::validate_dns1123_subdomain};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{Clock, Key, store::Index, store::Store};
use serde_json::{Value, json};

use super::{
    request::SigningRequest,
    subject::{KUBELET_CLIENT, NODE_PREFIX},
};
use crate::{
    resource::{NODES, SECRETS},
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// The key in the Secret of a join token for the only node name that it is good for.
pub const JOIN_NODE_NAME_KEY: &str = "join-node-name";
/// The key in the Secret of a join token for how many nodes may join with it.
pub const JOIN_USE_LIMIT_KEY: &str = "join-use-limit";
/// The key in the Secret of a join token for the requests that were approved with it, as `uid=node` with commas.
pub const JOIN_USES_KEY: &str = "join-uses";

const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";
const NAMESPACE: &str = "kube-system";
const ID_LETTERS: usize = 6;
/// The account of the approver and the cleaner, and the name of their role.
const ACCOUNT: &str = "certificate-controller";
const ROLE: &str = "k3.io:node-join-approver";

/// Decides about the requests of those who join.
pub(super) struct JoinPolicy {
    writer: ApiWriter,
    clock: Clock,
    requests: Store<SigningRequest>,
    by_node: Index<SigningRequest>,
    /// The requests that were approved by this process, by node: an informer may not have seen it yet.
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

/// The limits of a token, as its Secret has them.
#[derive(Debug, Default, PartialEq, Eq)]
struct TokenLimits {
    node: Option<String>,
    use_limit: Option<usize>,
    uses: Vec<String>,
    expires: Option<Timestamp>,
}

/// A decision, or that the API could not be asked.
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

    /// Waits for its turn.
    pub(super) async fn lock(&self) -> JoinGuard<'_> {
        self.approved.lock().await
    }

    /// Whether a request may be approved. Requests of others than those who join are none of its business.
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
        if let Some(denial) = self.find_issued(request, &node, approved) {
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

    /// Another request by which a certificate for the same node was issued, or is about to be.
    fn find_issued(
        &self,
        request: &SigningRequest,
        node: &str,
        approved: &mut JoinGuard<'_>,
    ) -> Option<JoinDenial> {
        let own = Key::new("", &request.metadata.name);
        let is_there = |key: &Key| self.requests.get(key).is_some_and(|other| !other.is_denied());
        if approved.get(node).is_some_and(|key| !is_there(key)) {
            // It was deleted, which releases the name.
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
        let seen = others
            .find(|other| other.metadata.name != request.metadata.name && is_valid(other))
            .map(|other| other.metadata.name.to_string());
        let known = approved.get(node).filter(|key| **key != own);
        let name = seen.or_else(|| known.map(|key| key.name().to_owned()))?;
        let message = format!(
            "a certificate for node {node:?} was issued for the request {name:?} and is still valid; choose another node \
             name, or, if the machine that has it must not use it, `kubectl delete csr {name}`"
        );
        Some(JoinDenial::new("CertificateIssued", message))
    }

    /// Counts a use of a token, if it is good for this node.
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
        if let Err(denial) = limits.check_subject(node, &entry, self.clock.now()) {
            return Ok(Err(denial));
        }
        if limits.use_limit.is_some() && !limits.uses.contains(&entry) {
            let mut uses = limits.uses;
            uses.push(entry);
            // The resourceVersion goes back as it came: whoever is faster wins, and this is decided again.
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
    /// `None` if they cannot be read: then nothing is allowed.
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

    fn check_subject(&self, node: &str, entry: &str, now: Timestamp) -> Result<(), JoinDenial> {
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

/// Whether a request was made with a join token, or by another bootstrapper.
pub(super) fn is_joining(request: &SigningRequest) -> bool {
    let spec = &request.spec;
    spec.username.starts_with(USER_PREFIX) || spec.groups.iter().any(|group| &**group == GROUP)
}

/// The node for which a request asks for a client certificate.
pub(super) fn client_node(request: &SigningRequest) -> Option<String> {
    if &*request.spec.signer_name != KUBELET_CLIENT {
        return None;
    }
    let asked = k3_api::kinds::parse_certificate_request(&request.spec.request).ok()?;
    Some(asked.identity().common_name.strip_prefix(NODE_PREFIX)?.to_owned())
}

/// When the certificate of a request ends, if it has one that can be read.
pub(super) fn certificate_end(request: &SigningRequest) -> Option<Timestamp> {
    let end = k3_api::kinds::certificate_not_after(&request.status.certificate)?;
    end.to_string().parse().ok()
}

/// Asks the server itself whether there is a node of a name, which must be one.
pub(super) async fn node_exists(writer: &ApiWriter, name: &str) -> kube::Result<bool> {
    match writer.get::<Value>(ObjectRef::new(&NODES, "", name)).await {
        Err(error) if has_status_code(&error, 404) => Ok(false),
        other => other.map(|_| true),
    }
}

/// What the approver needs beyond its upstream role: to see whether a node exists, and to count the uses of join tokens. Each
/// with the path at which it is created.
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
