//! Tokens of service accounts.

use k3_api::{
    field::{Error, Path},
    go::quote,
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::{StrategyContext, Tree, TreeMut},
    time::Duration,
};
use serde_json::{Value, json};

use super::{Phase, judge};
use crate::{
    admission::Operation,
    http::Answer,
    registry::{
        Ask, Registry, Resource, answer,
        ask::Warnings,
        body::{self, Expected},
        create::{match_namespace, random_uid},
        manage,
    },
    request::{WriteOptions, Writing},
};

/// What pods' tokens ask for when nobody chose it. They are given a year, for programs that read their token once, and are
/// noted when they are used after the hour.
const UNCHOSEN_SECONDS: i64 = 3607;
const YEAR_SECONDS: i64 = 365 * 24 * 3600;

// --- Registry ---

impl Registry {
    /// Issues a token of the service account in the path, as the request in the body asks for it.
    pub(super) async fn issue_token(&self, ask: &Ask) -> Result<Answer, Status> {
        let options = WriteOptions::read(&ask.query, Writing::Create, &ask.agent)?;
        let subresource = ask.target.subresource().expect("a token is a subresource");
        let grouped = GroupResource::new(&subresource.group, &subresource.kind);
        let rules = k3_api::kinds::rules_of_subresource(subresource).expect("token requests have rules");
        let expected = Expected {
            group: &subresource.group,
            version: &subresource.version,
            kind: &subresource.kind,
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut request = body::read(ask, expected, &options, &mut warnings)?;
        let accounts = Resource::of(ask.target.kind.clone(), &self.caches);
        match_namespace(&mut request, &accounts, &ask.target.namespace)?;
        rules.set_defaults(&mut request);
        manage::with_part(subresource, |subject| {
            subject.track(None, &mut request, &options.manager, ask.now);
        });
        // Before an audience is chosen for who names none: nodes may leave it to the server, and name none but those of pods.
        self.admit_as(
            (Operation::Create, Phase::Change),
            ask,
            &mut request,
            options.dry_run,
            &mut warnings,
        )
        .await?;
        let (namespace, name) = (&ask.target.namespace, &ask.target.name);
        let said = request.at("metadata").text("name");
        if !said.is_empty() && said != name {
            let (metadata, why) = (
                Path::new("metadata"),
                "must match the service account name if specified",
            );
            let error = Error::invalid(&metadata.child("name"), said, why);
            return Err(Status::invalid(grouped, name, &[error]));
        }
        self.fresh().await?;
        let key = accounts.key(namespace, name)?;
        let account = accounts
            .cache
            .get(&key)
            .ok_or_else(|| accounts.not_found(name))?
            .tree();
        let uid = account.at("metadata").text("uid");
        let said = request.at("metadata").text("uid");
        if !said.is_empty() && said != uid {
            let why = format!(
                "the UID in the token request ({said}) does not match the UID of the service account ({uid})"
            );
            return Err(Status::conflict(grouped, name, why));
        }
        if request.at("spec").items("audiences").is_empty() {
            request
                .ensure_object("spec")
                .set("audiences", self.authenticator.audiences());
        }
        let metadata = request.ensure_object("metadata");
        metadata.set("name", name.as_str());
        metadata.set("uid", uid);
        metadata.set("creationTimestamp", ask.now.truncated().to_string());
        request.remove("status");
        let at = StrategyContext {
            kind: &ask.target.kind,
            now: ask.now,
            user: &ask.user,
        };
        judge(rules, &request, &at, (grouped, ""))?;
        self.admit_as(
            (Operation::Create, Phase::Judge),
            ask,
            &mut request,
            options.dry_run,
            &mut warnings,
        )
        .await?;
        let mut claims = json!({
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": uid},
        });
        self.bind_token(&mut claims, request.at("spec").at("boundObjectRef"), ask)?;
        let token = self.sign_token(claims, request.at("spec"), ask);
        let seconds = request.at("spec").int("expirationSeconds").unwrap_or_default();
        let expires = ask.now.plus(Duration::from_seconds(seconds)).truncated();
        request.set(
            "status",
            json!({"token": token, "expirationTimestamp": expires.to_string()}),
        );
        let mut answer = answer::value(
            201,
            &answer::normal(&request, &subresource.ty),
            &subresource.ty,
            ask,
        )?;
        answer::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// The token, with the claims that are Kubernetes' own and those that all tokens have.
    fn sign_token(&self, mut own: Value, spec: &Value, ask: &Ask) -> String {
        let audiences = spec.items("audiences");
        let is_ours = |audience: &Value| {
            let ours = self.authenticator.audiences();
            ours.iter().any(|ours| audience.as_str() == Some(ours))
        };
        let now = ask.now.unix_seconds();
        let mut seconds = spec.int("expirationSeconds").unwrap_or_default();
        if own.has("pod") && seconds == UNCHOSEN_SECONDS && audiences.iter().all(is_ours) {
            own.set("warnafter", now + seconds);
            seconds = YEAR_SECONDS;
        }
        let id = random_uid();
        ask.notes.add(
            "authentication.kubernetes.io/issued-credential-id",
            format!("JTI={id}"),
        );
        let signer = self.authenticator.signer();
        signer.sign(&json!({
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": signer.issuer(),
            "jti": id,
            "nbf": now,
            "sub": format!("system:serviceaccount:{}:{}", ask.target.namespace, ask.target.name),
            "kubernetes.io": own,
        }))
    }

    /// Ties a token to an object: it is worth nothing without it.
    fn bind_token(&self, claims: &mut Value, reference: &Value, ask: &Ask) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let (kind, name) = (reference.text("kind"), reference.text("name"));
        let version = reference.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let shown = format!("{group}/{version}, Kind={kind}");
        let (plural, namespace) = match (group, kind) {
            ("", "Pod") => ("pods", ask.target.namespace.as_str()),
            ("", "Secret") => ("secrets", ask.target.namespace.as_str()),
            ("", "Node") => ("nodes", ""),
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
            ) if version == "v1" => {
                let gate = "feature gate APIServerWebhookAuthenticationToken is disabled";
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {shown} ({gate})"
                )));
            }
            _ => {
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {shown}"
                )));
            }
        };
        let object = self.bindable(plural, namespace, name)?;
        if kind == "Pod" {
            let spec = object.at("spec");
            if spec.text("serviceAccountName") != ask.target.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(&ask.target.name)
                )));
            }
            let node = spec.text("nodeName");
            if !node.is_empty() {
                let mut claim = json!({"name": node});
                // A node that is gone is still named.
                if let Ok(node) = self.bindable("nodes", "", node) {
                    claim.copy_from("uid", node.at("metadata"));
                }
                claims.set("node", claim);
            }
        }
        let (uid, wanted) = (object.at("metadata").text("uid"), reference.text("uid"));
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            return Err(Status::conflict(GroupResource::new(group, kind), name, why));
        }
        claims.set(&kind.to_lowercase(), json!({"name": name, "uid": uid}));
        Ok(())
    }

    /// An object that a token may be bound to.
    fn bindable(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let kind = builtin()
            .resource("", "v1", plural)
            .expect("the kind is built in");
        let resource = Resource::of(kind, &self.caches);
        let key = resource.key(namespace, name)?;
        let object = resource.cache.get(&key).ok_or_else(|| resource.not_found(name))?;
        Ok(object.tree())
    }
}
