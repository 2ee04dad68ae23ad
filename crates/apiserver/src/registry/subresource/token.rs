//! Tokens of service accounts.

use k3_api::{
    base64,
    kinds::builtin,
    rules::{Circumstances, Tree, TreeMut},
    status::{Grouped, Status},
    time::Duration,
};
use serde_json::{Value, json};

use super::judge;
use crate::{
    http::Answer,
    registry::{
        Ask, Registry, Resource, answer,
        ask::Warnings,
        body::{self, Expected},
        create::random_uid,
    },
    request::{WriteOptions, Writing},
};

/// How long a token lives that does not say so.
const HOUR: i64 = 3600;

/// What a token may be bound to.
const BINDABLE: [(&str, &str, &str); 3] = [
    ("Pod", "pods", "pod"),
    ("Secret", "secrets", "secret"),
    ("Node", "nodes", "node"),
];

// --- Registry ---

impl Registry {
    /// Issues a token of the service account in the path, as the request in the body asks for it.
    pub(super) async fn issue_token(&self, ask: &Ask) -> Result<Answer, Status> {
        let options = WriteOptions::read(&ask.query, Writing::Create, &ask.agent)?;
        let subresource = ask.target.subresource().expect("a token is a subresource");
        let expected = Expected {
            group: &subresource.group,
            version: &subresource.version,
            kind: &subresource.kind,
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut request = body::read(ask, expected, &options, &mut warnings)?;
        self.admit_part(ask, &mut request, options.dry_run, &mut warnings)
            .await?;
        if let Some(rules) = k3_api::kinds::rules_of_part(subresource) {
            rules.default(&mut request);
            let at = Circumstances {
                kind: &ask.target.kind,
                now: ask.now,
                user: &ask.user,
            };
            judge(
                rules,
                &request,
                &at,
                Grouped::new(&subresource.group, &subresource.kind),
            )?;
        }
        self.fresh().await?;
        let accounts = Resource::of(ask.target.kind.clone(), &self.caches);
        let key = accounts.key(&ask.target.namespace, &ask.target.name)?;
        let account = accounts
            .cache
            .get(&key)
            .ok_or_else(|| accounts.not_found(&ask.target.name))?
            .tree();
        let spec = request.at("spec");
        let seconds = spec.int("expirationSeconds").unwrap_or(HOUR);
        let expires = ask.now.plus(Duration::from_seconds(seconds)).truncated();
        let mut audiences: Vec<String> = spec.texts("audiences").map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(self.signer.issuer().to_owned());
        }
        let mut claims = json!({
            "aud": audiences,
            "exp": expires.unix_seconds(),
            "iat": ask.now.unix_seconds(),
            "iss": self.signer.issuer(),
            "jti": random_uid(),
            "nbf": ask.now.unix_seconds(),
            "sub": format!("system:serviceaccount:{}:{}", ask.target.namespace, ask.target.name),
            "kubernetes.io": {
                "namespace": ask.target.namespace,
                "serviceaccount": {"name": ask.target.name, "uid": account.at("metadata").text("uid")},
            },
        });
        self.bind_token(&mut claims, spec.at("boundObjectRef"), ask)?;
        let token = self.signer.sign(&claims);
        let metadata = request.make("metadata");
        metadata.set("name", ask.target.name.as_str());
        metadata.set("namespace", ask.target.namespace.as_str());
        metadata.set("creationTimestamp", ask.now.truncated().to_string());
        request.make("spec").set("audiences", audiences);
        request.set(
            "status",
            json!({"token": token, "expirationTimestamp": expires.to_string()}),
        );
        answer::value(
            201,
            &answer::normal(&request, &subresource.ty),
            &subresource.ty,
            ask,
        )
    }

    /// Ties a token to an object: it is worth nothing without it.
    fn bind_token(&self, claims: &mut Value, reference: &Value, ask: &Ask) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let (kind, name) = (reference.text("kind"), reference.text("name"));
        let Some((_, plural, claim)) = BINDABLE.into_iter().find(|(bindable, ..)| *bindable == kind) else {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {} to object of type {}, Kind={kind}",
                k3_api::go::quote(&ask.target.name),
                reference.text("apiVersion")
            )));
        };
        let resource = Resource::of(
            builtin()
                .resource("", "v1", plural)
                .expect("the kind is built in"),
            &self.caches,
        );
        let namespace = if kind == "Node" {
            ""
        } else {
            ask.target.namespace.as_str()
        };
        let key = resource.key(namespace, name)?;
        let object = resource
            .cache
            .get(&key)
            .ok_or_else(|| resource.not_found(name))?
            .tree();
        let uid = object.at("metadata").text("uid");
        let wanted = reference.text("uid");
        if !wanted.is_empty() && wanted != uid {
            return Err(Status::conflict(
                resource.grouped(),
                name,
                format!(
                    "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
                ),
            ));
        }
        if kind == "Pod" && object.at("spec").text("serviceAccountName") != ask.target.name {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                k3_api::go::quote(&ask.target.name)
            )));
        }
        claims
            .make("kubernetes.io")
            .set(claim, json!({"name": name, "uid": uid}));
        Ok(())
    }
}

/// Signs tokens.
pub(crate) struct Signer {
    issuer: String,
    key: ring::signature::EcdsaKeyPair,
    key_id: String,
}

/// A signing key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the signing key of service accounts is not an ECDSA P-256 key in PKCS#8 form")]
pub struct BadSigningKey;

// --- Signer ---

impl Signer {
    /// Signs as an issuer, with a P-256 key in PKCS#8 form.
    pub(crate) fn new(issuer: String, pkcs8: &[u8]) -> Result<Self, BadSigningKey> {
        use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
        let random = ring::rand::SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|_| BadSigningKey)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        let key_id = base64::encode_url(digest.as_ref());
        Ok(Signer { issuer, key, key_id })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let part = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&header), part(claims));
        let random = ring::rand::SystemRandom::new();
        let signature = self
            .key
            .sign(&random, text.as_bytes())
            .expect("a P-256 key signs any text");
        format!("{text}.{}", base64::encode_url(signature.as_ref()))
    }

    /// The public key, as those who verify tokens want it.
    pub(crate) fn key_set(&self) -> Value {
        use ring::signature::KeyPair;
        // An uncompressed point: 4, then both coordinates.
        let point = self.key.public_key().as_ref();
        let half = (point.len() - 1) / 2;
        json!({"keys": [{
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": base64::encode_url(&point[1..=half]),
            "y": base64::encode_url(&point[half + 1..]),
        }]})
    }

    /// What those who verify tokens ask first.
    pub(crate) fn configuration(&self, address: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}
