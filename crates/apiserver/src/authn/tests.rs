//! Claims about the whole chain, over a small cluster.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use k3_api::{
    base64, encode,
    kinds::builtin,
    strategy::{Tree, TreeMut},
    time::Time,
};
use k3_storage::{Write, memory::MemoryStore};
use serde_json::{Value, json};

use super::{keys::tests::signer, *};
use crate::{
    cache::{StoreReflector, WatchCaches},
    registry::{self, Resource},
};

const ISSUER: &str = "https://issuer";
const NOW: i64 = 1_000_000;

/// A cluster with a service account, a pod and nothing to ask them by but an authenticator.
struct Cluster {
    caches: Arc<WatchCaches>,
    _feed: StoreReflector,
    authenticator: Authenticator,
}

impl Cluster {
    async fn start(options: Authentication) -> Self {
        let store = MemoryStore::new();
        let (caches, feed) = WatchCaches::fill(store, registry::selectable).await.unwrap();
        let authenticator = Authenticator::new(options, signer(), Arc::clone(&caches));
        let cluster = Cluster {
            caches,
            _feed: feed,
            authenticator,
        };
        cluster
            .put("ServiceAccount", "a", "robot", "u-robot", json!({}))
            .await;
        cluster.put("Pod", "a", "web", "u-web", json!({})).await;
        cluster
    }

    async fn put(&self, kind: &str, namespace: &str, name: &str, uid: &str, rest: Value) {
        let mut object = json!({
            "kind": kind,
            "apiVersion": "v1",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
        });
        for (name, value) in rest.as_object().unwrap() {
            object.set(name, value.clone());
        }
        self.put_object(object).await;
    }

    async fn put_object(&self, object: Value) {
        let metadata = object.at("metadata");
        let key = self
            .resource(object.text("kind"))
            .key(metadata.text("namespace"), metadata.text("name"))
            .unwrap();
        let bytes = Bytes::from(encode::encode_stored(object.as_object().unwrap()));
        let write = match self.caches.store().get(&key).await.unwrap() {
            Some(entry) => Write::update(key, entry.revision, bytes),
            None => Write::create(key, bytes),
        };
        let revision = self.caches.store().writable().commit(write).await.unwrap();
        self.caches.wait_until_applied(revision).await;
    }

    async fn remove(&self, kind: &str, namespace: &str, name: &str) {
        let key = self.resource(kind).key(namespace, name).unwrap();
        let entry = self.caches.store().get(&key).await.unwrap().unwrap();
        let write = Write::delete(key, entry.revision);
        let revision = self.caches.store().writable().commit(write).await.unwrap();
        self.caches.wait_until_applied(revision).await;
    }

    fn resource(&self, kind: &str) -> Resource {
        Resource::of(builtin().kind("", "v1", kind).unwrap(), &self.caches)
    }

    /// A token of the account with claims changed.
    fn token(&self, changes: &Value) -> String {
        let mut claims = json!({
            "iss": ISSUER, "aud": [ISSUER], "sub": "system:serviceaccount:a:robot", "jti": "u-token",
            "iat": NOW, "nbf": NOW, "exp": NOW + 3600,
            "kubernetes.io": {
                "namespace": "a",
                "serviceaccount": {"name": "robot", "uid": "u-robot"},
                "pod": {"name": "web", "uid": "u-web"},
            },
        });
        for (name, value) in changes.as_object().unwrap() {
            claims.set(name, value.clone());
        }
        self.authenticator.signer().sign(&claims)
    }

    /// What is said to a request with headers that comes from an address at a time.
    async fn ask_at(
        &self,
        now: i64,
        path: &str,
        headers: &[(HeaderName, &str)],
        peer: &str,
    ) -> Result<AuthenticatedUser, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let credentials = Credentials {
            headers: &map,
            path,
            host: "127.0.0.1:6443",
            peer: &ConnectionPeer {
                address: Some(peer.parse().unwrap()),
                ..ConnectionPeer::default()
            },
            now: Time::from_unix(now, 0),
        };
        let known = self.authenticator.authenticate(&credentials).await;
        known.map_err(|status| status.code)
    }

    async fn bear_at(&self, now: i64, token: &str) -> Result<AuthenticatedUser, u16> {
        let bearer = format!("Bearer {token}");
        self.ask_at(now, "/api", &[(header::AUTHORIZATION, &bearer)], "192.0.2.7:5")
            .await
    }

    async fn bear(&self, token: &str) -> Result<AuthenticatedUser, u16> {
        self.bear_at(NOW, token).await
    }

    async fn review(&self, token: &str, audiences: &[&str]) -> Result<AuthenticatedUser, String> {
        let audiences: Vec<_> = audiences.iter().map(ToString::to_string).collect();
        let now = Time::from_unix(NOW, 0);
        match self.authenticator.review(token, &audiences, now).await {
            TokenReviewResult::Authenticated(known) => Ok(known),
            TokenReviewResult::Unknown(reason) => Err(reason.unwrap_or_default()),
        }
    }
}

fn extra<'k>(known: &'k AuthenticatedUser, key: &str) -> &'k [String] {
    let mut extra = known.user.extra.iter();
    extra
        .find(|(name, _)| name == &format!("authentication.kubernetes.io/{key}"))
        .map_or(&[], |(_, values)| values)
}

#[tokio::test]
async fn token_authenticates_account_with_pod_and_node_claims() {
    let cluster = Cluster::start(Authentication::default()).await;
    let mut own = json!({
        "namespace": "a", "serviceaccount": {"name": "robot", "uid": "u-robot"},
        "pod": {"name": "web", "uid": "u-web"},
    });
    own.set("node", json!({"name": "n1", "uid": "u-n1"}));
    let known = cluster
        .bear(&cluster.token(&json!({"kubernetes.io": own})))
        .await
        .unwrap();
    assert_eq!(known.user.name, "system:serviceaccount:a:robot");
    assert_eq!(known.user.uid, "u-robot");
    assert_eq!(
        known.user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:a",
            "system:authenticated"
        ]
    );
    for (key, value) in [
        ("credential-id", "JTI=u-token"),
        ("pod-name", "web"),
        ("pod-uid", "u-web"),
        ("node-name", "n1"),
        ("node-uid", "u-n1"),
    ] {
        assert_eq!(extra(&known, key), [value], "{key}");
    }
}

#[tokio::test]
async fn token_validity_has_one_minute_leeway() {
    let cluster = Cluster::start(Authentication::default()).await;
    let token = cluster.token(&json!({}));
    assert!(cluster.bear_at(NOW - 60, &token).await.is_ok());
    assert_eq!(cluster.bear_at(NOW - 61, &token).await, Err(401));
    assert!(cluster.bear_at(NOW + 3660, &token).await.is_ok());
    assert_eq!(cluster.bear_at(NOW + 3661, &token).await, Err(401));
    let later = cluster.token(&json!({"iat": NOW + 61}));
    assert_eq!(cluster.bear(&later).await, Err(401));
}

#[tokio::test]
async fn rejects_other_audience() {
    let cluster = Cluster::start(Authentication::default()).await;
    let vault = cluster.token(&json!({"aud": ["vault"]}));
    assert_eq!(cluster.bear(&vault).await, Err(401));
    assert_eq!(
        cluster.review(&vault, &["vault"]).await.unwrap().audiences,
        ["vault"]
    );
    assert_eq!(
        cluster.review(&vault, &[]).await.unwrap_err(),
        "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"https://issuer\"]]"
    );
    // Both forms of the claim are read; a token without one is for this server.
    assert!(
        cluster
            .bear(&cluster.token(&json!({"aud": ISSUER})))
            .await
            .is_ok()
    );
    assert!(cluster.bear(&cluster.token(&json!({"aud": []}))).await.is_ok());
    let foreign = cluster.token(&json!({"iss": "https://elsewhere"}));
    assert_eq!(
        cluster.review(&foreign, &[]).await.unwrap_err(),
        "invalid bearer token"
    );
}

#[tokio::test]
async fn rejects_unknown_issuer_or_key() {
    let cluster = Cluster::start(Authentication::default()).await;
    let claims = json!({
        "iss": ISSUER, "aud": [ISSUER], "exp": NOW + 60,
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot", "uid": "u-robot"}},
    });
    assert!(
        cluster
            .bear(&cluster.authenticator.signer().sign(&claims))
            .await
            .is_ok()
    );
    assert_eq!(cluster.bear(&signer().sign(&claims)).await, Err(401));
}

#[tokio::test]
async fn accepts_listed_previous_key() {
    let old = signer();
    let options = Authentication {
        more_keys: vec![old.public().clone()],
        ..Authentication::default()
    };
    let cluster = Cluster::start(options).await;
    let claims = json!({
        "iss": ISSUER, "aud": [ISSUER], "exp": NOW + 60,
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot", "uid": "u-robot"}},
    });
    assert!(cluster.bear(&old.sign(&claims)).await.is_ok());
    assert_eq!(
        cluster.authenticator.key_set()["keys"].as_array().unwrap().len(),
        2
    );
}

#[tokio::test]
async fn deleting_pod_or_account_invalidates_token() {
    for (kind, name, said) in [
        ("Pod", "web", "service account token has been invalidated"),
        ("ServiceAccount", "robot", "serviceaccounts \"robot\" not found"),
    ] {
        let cluster = Cluster::start(Authentication::default()).await;
        let token = cluster.token(&json!({}));
        // Once, and once more from memory.
        assert!(cluster.bear(&token).await.is_ok());
        assert!(cluster.bear(&token).await.is_ok());
        cluster.remove(kind, "a", name).await;
        assert_eq!(cluster.bear(&token).await, Err(401), "{kind}");
        let unique = cluster.review(&token, &[]).await.unwrap_err();
        assert_eq!(unique, format!("[invalid bearer token, {said}]"));
        // Another one of the same name is another one.
        cluster.put(kind, "a", name, "u-other", json!({})).await;
        assert_eq!(cluster.bear(&token).await, Err(401), "{kind}");
    }
}

#[tokio::test]
async fn terminating_account_is_valid_within_leeway() {
    let cluster = Cluster::start(Authentication::default()).await;
    let token = cluster.token(&json!({}));
    let deleted = Time::from_unix(NOW, 0).to_string();
    let metadata = json!({"namespace": "a", "name": "robot", "uid": "u-robot", "deletionTimestamp": deleted});
    cluster
        .put_object(json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}))
        .await;
    assert!(cluster.bear_at(NOW + 60, &token).await.is_ok());
    assert_eq!(cluster.bear_at(NOW + 90, &token).await, Err(401));
}

#[tokio::test]
async fn legacy_token_is_valid_while_secret_exists() {
    let cluster = Cluster::start(Authentication::default()).await;
    let claims = |subject: &str| {
        json!({
            "iss": "kubernetes/serviceaccount", "sub": format!("system:serviceaccount:a:{subject}"),
            "kubernetes.io/serviceaccount/namespace": "a",
            "kubernetes.io/serviceaccount/secret.name": "robot-token",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": "u-robot",
        })
    };
    let token = cluster.authenticator.signer().sign(&claims("robot"));
    assert_eq!(
        cluster.review(&token, &[]).await.unwrap_err(),
        "[invalid bearer token, Token has been invalidated]"
    );
    let secret = |text: &str| {
        json!({
            "type": "kubernetes.io/service-account-token",
            "data": {"token": base64::encode(text.as_bytes())},
        })
    };
    cluster
        .put("Secret", "a", "robot-token", "u-s", secret(&token))
        .await;
    let known = cluster.bear(&token).await.unwrap();
    assert_eq!(
        (known.user.name.as_str(), known.expires),
        ("system:serviceaccount:a:robot", None)
    );
    assert!(known.user.extra.is_empty());
    let other = cluster.authenticator.signer().sign(&claims("admin"));
    assert_eq!(
        cluster.review(&other, &[]).await.unwrap_err(),
        "[invalid bearer token, sub claim is invalid]"
    );
    cluster
        .put("Secret", "a", "robot-token", "u-s", secret("another"))
        .await;
    assert_eq!(
        cluster.review(&token, &[]).await.unwrap_err(),
        "[invalid bearer token, Token does not match server's copy]"
    );
    cluster
        .put("Secret", "a", "robot-token", "u-s", secret(&token))
        .await;
    assert!(cluster.bear(&token).await.is_ok());
    cluster.remove("Secret", "a", "robot-token").await;
    assert_eq!(cluster.bear(&token).await, Err(401));
}

#[tokio::test]
async fn bootstrap_token_authenticates_until_expiration() {
    let cluster = Cluster::start(Authentication::default()).await;
    let secret = |changes: &[(&str, &str)]| {
        let mut data = json!({});
        for (key, value) in [
            ("token-id", "abc123"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:kubeadm"),
            ("expiration", "1970-01-12T13:46:41Z"),
        ]
        .iter()
        .chain(changes)
        {
            data.set(key, base64::encode(value.as_bytes()));
        }
        json!({"type": "bootstrap.kubernetes.io/token", "data": data})
    };
    let put = |secret: Value| cluster.put("Secret", "kube-system", "bootstrap-token-abc123", "u-b", secret);
    let token = "abc123.0123456789abcdef";
    assert_eq!(cluster.bear(token).await, Err(401));
    put(secret(&[])).await;
    let known = cluster.bear(token).await.unwrap();
    assert_eq!(known.user.name, "system:bootstrap:abc123");
    assert_eq!(
        known.user.groups,
        [
            "system:bootstrappers",
            "system:bootstrappers:kubeadm",
            "system:authenticated"
        ]
    );
    assert_eq!(cluster.bear("abc123.0123456789abcdeg").await, Err(401));
    assert_eq!(cluster.bear_at(NOW + 1, token).await, Err(401), "it has ended");
    for change in [
        ("usage-bootstrap-authentication", "yes"),
        ("expiration", "never"),
        ("auth-extra-groups", "system:masters"),
        ("token-id", "abc124"),
    ] {
        put(secret(&[change])).await;
        assert_eq!(cluster.bear(token).await, Err(401), "{change:?}");
    }
    let mut unreadable = secret(&[]);
    unreadable["data"]["expiration"] = json!(base64::encode(&[0xff]));
    put(unreadable).await;
    assert_eq!(cluster.bear(token).await, Err(401), "when it ends cannot be read");
    let mut opaque = secret(&[]);
    opaque.set("type", "Opaque");
    put(opaque).await;
    assert_eq!(cluster.bear(token).await, Err(401), "of another type");
}

#[tokio::test]
async fn ephemeral_token_authenticates_until_expired_or_revoked() {
    let cluster = Cluster::start(Authentication::default()).await;
    let issued = UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    let groups = ["devs".to_owned()];
    let (token, text) = EphemeralToken::issue("alice", &groups, Duration::from_mins(1), issued);
    assert_eq!(cluster.bear(&text).await, Err(401));
    cluster.put_object(token.to_secret()).await;
    let known = cluster.bear(&text).await.unwrap();
    assert_eq!(known.user.name, "alice");
    assert_eq!(known.user.groups, ["devs", "system:authenticated"]);
    assert_eq!(known.expires, Some(NOW + 60));
    assert_eq!(cluster.bear_at(NOW + 60, &text).await, Err(401));
    let (_, other) = EphemeralToken::issue("alice", &groups, Duration::from_mins(1), issued);
    let mixed = format!(
        "{}.{}",
        text.split_once('.').unwrap().0,
        other.split_once('.').unwrap().1
    );
    assert_eq!(cluster.bear(&mixed).await, Err(401));
    let secret = cluster.review(&text, &["elsewhere"]).await;
    assert_eq!(secret.unwrap_err(), "invalid bearer token");
    let name = EphemeralToken::secret_name(&token.id);
    cluster.remove("Secret", "kube-system", &name).await;
    assert_eq!(cluster.bear(&text).await, Err(401));
}

#[tokio::test]
async fn anonymous_may_read_health_only() {
    let cluster = Cluster::start(Authentication::default()).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let known = cluster.ask_at(NOW, path, &[], "192.0.2.7:5").await.unwrap();
        assert_eq!(known.user, anonymous());
        let bad = [(header::AUTHORIZATION, "Bearer nonsense")];
        assert_eq!(cluster.ask_at(NOW, path, &bad, "192.0.2.7:5").await, Err(401));
    }
    for path in ["/", "/version", "/healthz/ping", "/api/v1/namespaces"] {
        assert_eq!(cluster.ask_at(NOW, path, &[], "192.0.2.7:5").await, Err(401));
    }
    let options = Authentication {
        anonymous: Anonymous::Anything,
        ..Authentication::default()
    };
    let cluster = Cluster::start(options).await;
    let spaced = [(header::AUTHORIZATION, "Bearer  x")];
    let known = cluster
        .ask_at(NOW, "/version", &spaced, "192.0.2.7:5")
        .await
        .unwrap();
    assert_eq!(known.user, anonymous());
    assert!(known.warning.unwrap().contains("extra space"));
}

#[tokio::test]
async fn localhost_is_trusted_when_enabled_by_peer_address() {
    let options = Authentication {
        localhost: true,
        ..Authentication::default()
    };
    let cluster = Cluster::start(options).await;
    let respond_with = |headers: Vec<(HeaderName, &'static str)>, peer: &'static str| {
        let cluster = &cluster;
        async move {
            cluster
                .ask_at(NOW, "/api", &headers, peer)
                .await
                .map(|known| known.user.groups)
        }
    };
    let masters = Ok(vec![
        "system:masters".to_owned(),
        "system:authenticated".to_owned(),
    ]);
    assert_eq!(respond_with(vec![], "127.0.0.1:5").await, masters);
    assert_eq!(respond_with(vec![], "192.0.2.7:5").await, Err(401));
    for name in ["x-forwarded-for", "x-real-ip", "forwarded", "via"] {
        let name = HeaderName::from_static(name);
        assert_eq!(
            respond_with(vec![(name.clone(), "127.0.0.1")], "192.0.2.7:5").await,
            Err(401),
            "{name}"
        );
        assert_eq!(
            respond_with(vec![(name.clone(), "127.0.0.1")], "127.0.0.1:5").await,
            Err(401),
            "{name}"
        );
    }
    // Invalid credentials are rejected even from localhost.
    let wrong = (header::AUTHORIZATION, "Bearer nonsense");
    assert_eq!(respond_with(vec![wrong], "127.0.0.1:5").await, Err(401));
    let odd = (header::AUTHORIZATION, "Basic YTpi");
    assert_eq!(respond_with(vec![odd], "127.0.0.1:5").await, Err(401));
    let cluster = Cluster::start(Authentication::default()).await;
    assert_eq!(
        cluster.ask_at(NOW, "/api", &[], "127.0.0.1:5").await,
        Err(401),
        "off by default"
    );
}

#[tokio::test]
async fn uses_first_authorization_header() {
    let tokens = TokenFile::parse("t,alice,u\n", std::path::Path::new("tokens")).unwrap();
    let options = Authentication {
        tokens,
        ..Authentication::default()
    };
    let cluster = Cluster::start(options).await;
    let good = (header::AUTHORIZATION, "Bearer t");
    let bad = (header::AUTHORIZATION, "Bearer x");
    let known = cluster
        .ask_at(NOW, "/api", &[good.clone(), bad.clone()], "192.0.2.7:5")
        .await;
    assert_eq!(known.unwrap().user.name, "alice");
    assert_eq!(
        cluster.ask_at(NOW, "/api", &[bad, good], "192.0.2.7:5").await,
        Err(401)
    );
    let protocol = format!(
        "base64url.bearer.authorization.k8s.io.{}, x",
        base64::encode_url(b"t")
    );
    let headers = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_PROTOCOL, protocol.as_str()),
    ];
    let known = cluster.ask_at(NOW, "/api", &headers, "192.0.2.7:5").await;
    assert_eq!(known.unwrap().user.name, "alice");
}

#[tokio::test]
async fn token_review_checks_audiences() {
    let tokens = TokenFile::parse("t,alice,u\n", std::path::Path::new("tokens")).unwrap();
    let options = Authentication {
        tokens,
        ..Authentication::default()
    };
    let cluster = Cluster::start(options).await;
    let known = cluster.review("t", &["api", ISSUER]).await.unwrap();
    assert_eq!(
        (known.user.name.as_str(), known.audiences),
        ("alice", vec![ISSUER.to_owned()])
    );
    assert_eq!(
        cluster.review("t", &["api"]).await.unwrap_err(),
        "invalid bearer token"
    );
    assert_eq!(
        cluster.review("x", &[]).await.unwrap_err(),
        "invalid bearer token"
    );
    assert_eq!(
        cluster.review(" t", &[]).await.unwrap_err(),
        "",
        "not a token at all"
    );
    let expired = cluster.token(&json!({"exp": NOW - 61}));
    assert_eq!(
        cluster.review(&expired, &[]).await.unwrap_err(),
        "[invalid bearer token, service account token has expired]"
    );
}
