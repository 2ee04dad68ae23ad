//! The `token` subresource of ServiceAccounts (TokenRequest): issues bound service account tokens.

use std::sync::Arc;

use k3_api::{
    field::{Error, Path},
    go::quote,
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::{StrategyContext, Tree, TreeMut},
};
use k3_duration::Duration;
use serde_json::{Value, json};

use super::validate_rules;
use crate::{
    admission::Operation,
    authn::Authenticator,
    cache::WatchCaches,
    http::HttpResponse,
    registry::{
        RequestContext, Resource,
        admission::{AdmissionPhase, ObjectAdmission},
        body::{self, ExpectedKind},
        create::{match_namespace, random_uid},
        freshness::read_index,
        managed_fields,
        request_context::Warnings,
        response,
    },
    request::{WriteOptions, WriteVerb},
};

/// The default expiration of projected tokens. It is extended to a year, for programs that read their token only once; later
/// use is annotated as stale.
const UNCHOSEN_SECONDS: i64 = 3607;
const YEAR_SECONDS: i64 = 365 * 24 * 3600;

/// Issues tokens of service accounts.
// upstream: pkg/registry/core/serviceaccount/storage/token.go TokenREST
pub(crate) struct TokenRequestStorage {
    caches: Arc<WatchCaches>,
    authenticator: Arc<Authenticator>,
    admission: Arc<ObjectAdmission>,
}

// --- TokenRequestStorage ---

impl TokenRequestStorage {
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        authenticator: Arc<Authenticator>,
        admission: Arc<ObjectAdmission>,
    ) -> Self {
        TokenRequestStorage {
            caches,
            authenticator,
            admission,
        }
    }

    /// Issues a token of the service account in the path, as the request in the body asks for it.
    // upstream: pkg/registry/core/serviceaccount/storage/token.go Create
    pub(crate) async fn create(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let subresource = ctx.target.subresource().expect("a token is a subresource");
        let grouped = GroupResource::new(&subresource.group, &subresource.kind);
        let rules = k3_api::kinds::strategy_of_subresource(subresource).expect("token requests have rules");
        let expected = ExpectedKind {
            group: &subresource.group,
            version: &subresource.version,
            kind: &subresource.kind,
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut request = body::read(ctx, expected, &options, &mut warnings)?;
        let accounts = Resource::of(ctx.target.kind.clone(), &self.caches);
        match_namespace(&mut request, &accounts, &ctx.target.namespace)?;
        rules.set_defaults(&mut request);
        managed_fields::with_part(subresource, |subject| {
            subject.track(None, &mut request, &options.manager, ctx.now);
        });
        // Before an audience is chosen for who names none: nodes may leave it to the server, and name none but those of pods.
        self.admission
            .admit_as(
                (Operation::Create, AdmissionPhase::Change),
                ctx,
                &mut request,
                options.mode,
                &mut warnings,
            )
            .await?;
        let namespace = &ctx.target.namespace;
        let name = &ctx.target.name;
        let requested_name = request.at("metadata").text("name");
        if !requested_name.is_empty() && requested_name != name {
            let metadata = Path::new("metadata");
            let why = "must match the service account name if specified";
            let error = Error::invalid(&metadata.child("name"), requested_name, why);
            return Err(Status::invalid(grouped, name, &[error]));
        }
        read_index(&self.caches).await?;
        let key = accounts.key(namespace, name)?;
        let account = accounts
            .cache
            .get(&key)
            .ok_or_else(|| accounts.not_found(name))?
            .tree();
        let uid = account.at("metadata").text("uid");
        let requested_uid = request.at("metadata").text("uid");
        if !requested_uid.is_empty() && requested_uid != uid {
            let why = format!(
                "the UID in the token request ({requested_uid}) does not match the UID of the service account ({uid})"
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
        metadata.set("creationTimestamp", ctx.now.truncated().to_string());
        request.remove("status");
        let at = StrategyContext {
            kind: &ctx.target.kind,
            now: ctx.now,
            user: &ctx.user,
        };
        validate_rules(rules, &request, &at, (grouped, ""))?;
        self.admission
            .admit_as(
                (Operation::Create, AdmissionPhase::Validate),
                ctx,
                &mut request,
                options.mode,
                &mut warnings,
            )
            .await?;
        let mut claims = json!({
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": uid},
        });
        self.bind_token(&mut claims, request.at("spec").at("boundObjectRef"), ctx)?;
        let token = self.sign_token(claims, request.at("spec"), ctx);
        let seconds = request.at("spec").int("expirationSeconds").unwrap_or_default();
        let expires = ctx.now.plus(Duration::from_seconds(seconds)).truncated();
        request.set(
            "status",
            json!({"token": token, "expirationTimestamp": expires.to_string()}),
        );
        let mut answer = response::value(
            201,
            &response::normal(&request, &subresource.ty),
            &subresource.ty,
            ctx,
        )?;
        response::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// The token, with the claims that are Kubernetes' own and those that all tokens have.
    // upstream: pkg/serviceaccount/claims.go Claims; a bound service account token (KEP-1205)
    fn sign_token(&self, mut own: Value, spec: &Value, ctx: &RequestContext) -> String {
        let audiences = spec.items("audiences");
        let is_ours = |audience: &Value| {
            let ours = self.authenticator.audiences();
            ours.iter().any(|ours| audience.as_str() == Some(ours))
        };
        let now = ctx.now.unix_seconds();
        let mut seconds = spec.int("expirationSeconds").unwrap_or_default();
        if own.has("pod") && seconds == UNCHOSEN_SECONDS && audiences.iter().all(is_ours) {
            own.set("warnafter", now + seconds);
            seconds = YEAR_SECONDS;
        }
        let id = random_uid();
        ctx.notes.add(
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
            "sub": format!("system:serviceaccount:{}:{}", ctx.target.namespace, ctx.target.name),
            "kubernetes.io": own,
        }))
    }

    /// Binds a service account token to a Pod, Node or Secret: it is invalid when that object is deleted.
    // upstream: pkg/registry/core/serviceaccount/storage/token.go Create
    fn bind_token(&self, claims: &mut Value, reference: &Value, ctx: &RequestContext) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let kind = reference.text("kind");
        let name = reference.text("name");
        let version = reference.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let shown = format!("{group}/{version}, Kind={kind}");
        let (plural, namespace) = match (group, kind) {
            ("", "Pod") => ("pods", ctx.target.namespace.as_str()),
            ("", "Secret") => ("secrets", ctx.target.namespace.as_str()),
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
            if spec.text("serviceAccountName") != ctx.target.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(&ctx.target.name)
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
        let uid = object.at("metadata").text("uid");
        let wanted = reference.text("uid");
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
