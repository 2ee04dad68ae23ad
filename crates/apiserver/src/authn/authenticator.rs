//! Authenticates requests: each authenticator is tried in turn until one succeeds.
//!
//! Promises: an invalid credential is rejected, even if an anonymous request would be allowed; tokens never appear in responses
//! or logs.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header};
use k3_api::{status::Status, strategy::User, time::Time};
use rustls::server::danger::ClientCertVerifier;
use serde_json::Value;

use super::{
    BadSigningKey, ClientCertificate, KubectlRule, PublicKey, Signer, TokenFile, anonymous, authenticated,
    bearer::{self, Bearer},
    key_ring::KeyRing,
    keys, localhost,
    lookup::TokenObjectLookup,
    tokens::{AuthenticationErrors, TokenAuthenticator},
};
use crate::cache::WatchCaches;

/// Health endpoints, which load balancers call without credentials.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Configuration of authentication.
#[derive(Debug, Default)]
pub struct Authentication {
    /// Users by their static tokens.
    pub tokens: TokenFile,
    /// What requests without credentials may ask for.
    pub anonymous: Anonymous,
    /// Verifies client certificates; without it, none is accepted.
    pub certificates: Option<Arc<dyn ClientCertVerifier>>,
    /// Additional issuers whose service-account tokens are trusted.
    pub more_issuers: Vec<String>,
    /// Further keys that such tokens may be signed with, beside the one that this server signs with.
    pub more_keys: Vec<PublicKey>,
    /// The audiences that this server is. None: its issuer.
    pub audiences: Vec<String>,
    /// Whether requests from this machine without credentials are those of an administrator. Any local process then controls
    /// the cluster.
    pub localhost: bool,
    /// What kubectl may do.
    pub kubectl: KubectlRule,
}

/// Which paths requests without credentials may use, as `system:anonymous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Whether the server is well.
    #[default]
    Health,
    /// What roles allow them.
    Anything,
}

/// The peer of a connection: its address and client certificate.
#[derive(Default)]
pub(crate) struct ConnectionPeer {
    /// Where it is; `None` if there is no socket.
    pub address: Option<SocketAddr>,
    /// The certificate it showed. It has the key for it; nothing else is known.
    pub certificate: Option<ClientCertificate>,
    /// Who it is, if it is part of this process.
    pub in_process: Option<User>,
}

/// The parts of a request that authenticators read.
pub(crate) struct Credentials<'r> {
    pub headers: &'r HeaderMap,
    pub path: &'r str,
    /// The host that the request is for.
    pub host: &'r str,
    pub peer: &'r ConnectionPeer,
    pub now: Time,
}

/// An authenticated user, and how it authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthenticatedUser {
    pub user: User,
    /// For which of the audiences that were asked for.
    pub audiences: Vec<String>,
    /// When the credential ends, in seconds since 1970, if it does.
    pub expires: Option<i64>,
    pub way: AuthenticationMethod,
    /// A warning for the client.
    pub warning: Option<&'static str>,
}

/// How a user was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationMethod {
    Certificate,
    Token,
    Localhost,
    Anonymous,
    /// Part of this process.
    InProcess,
}

/// The result of a token review.
pub(crate) enum TokenReviewResult {
    /// It is this user's.
    Authenticated(AuthenticatedUser),
    /// Not authenticated; there may be a reason.
    Unknown(Option<String>),
}

/// Authenticates requests.
pub(crate) struct Authenticator {
    tokens: TokenAuthenticator,
    keys: KeyRing,
    anonymous: Anonymous,
    certificates: Option<Arc<dyn ClientCertVerifier>>,
    localhost: bool,
    kubectl: KubectlRule,
}

// --- AuthenticatedUser ---

impl AuthenticatedUser {
    /// A user with a token that does not expire.
    pub(super) fn by_token(user: User, audiences: Vec<String>) -> Self {
        AuthenticatedUser {
            user,
            audiences,
            expires: None,
            way: AuthenticationMethod::Token,
            warning: None,
        }
    }

    fn by(way: AuthenticationMethod, user: User) -> Self {
        AuthenticatedUser {
            way,
            ..AuthenticatedUser::by_token(user, Vec::new())
        }
    }
}

// --- Authenticator ---

impl Authenticator {
    /// An authenticator over a cluster.
    pub(crate) fn new(options: Authentication, signer: Signer, caches: Arc<WatchCaches>) -> Self {
        let mut issuers = vec![signer.issuer().to_owned()];
        issuers.extend(options.more_issuers);
        let mut audiences = options.audiences;
        if audiences.is_empty() {
            audiences.clone_from(&issuers);
        }
        let keys = KeyRing::new(signer, options.more_keys);
        let tokens = TokenAuthenticator::new(
            options.tokens,
            issuers,
            keys.clone(),
            audiences,
            TokenObjectLookup::new(caches),
        );
        Authenticator {
            tokens,
            keys,
            anonymous: options.anonymous,
            certificates: options.certificates,
            localhost: options.localhost,
            kubectl: options.kubectl,
        }
    }

    /// Authenticates a request; an error rejects it.
    // upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/union/union.go AuthenticateRequest
    pub(crate) async fn authenticate(&self, request: &Credentials<'_>) -> Result<AuthenticatedUser, Status> {
        let agent = bearer::text(request.headers, header::USER_AGENT);
        self.kubectl.check_agent(&agent)?;
        if let Some(user) = &request.peer.in_process {
            return Ok(AuthenticatedUser::by(
                AuthenticationMethod::InProcess,
                authenticated(user.clone()),
            ));
        }
        let mut reasons = AuthenticationErrors::default();
        match self.authenticate_credentials(request, &mut reasons).await {
            Some(known) => {
                self.kubectl.check_token(&agent, &known, request.now)?;
                Ok(AuthenticatedUser {
                    user: authenticated(known.user),
                    ..known
                })
            }
            None if reasons.is_empty() => self.authenticate_anonymous(request),
            None => {
                tracing::debug!(%reasons, path = request.path, "authentication failed");
                Err(unauthorized())
            }
        }
    }

    /// Authenticates by the first valid credential of the request: certificate, then tokens. `None` if none is valid; `reasons`
    /// receives the errors.
    async fn authenticate_credentials(
        &self,
        request: &Credentials<'_>,
        reasons: &mut AuthenticationErrors,
    ) -> Option<AuthenticatedUser> {
        if let (Some(certificate), Some(verifier)) = (&request.peer.certificate, &self.certificates) {
            match certificate.user(verifier.as_ref(), request.now) {
                Ok(Some(user)) => {
                    return Some(AuthenticatedUser::by(AuthenticationMethod::Certificate, user));
                }
                Ok(None) => {}
                Err(reason) => reasons.push(reason),
            }
        }
        let header = bearer::text(request.headers, header::AUTHORIZATION);
        let in_protocol = bearer::websocket(request.headers).unwrap_or_else(|reason| {
            reasons.push(reason);
            None
        });
        let in_header = match bearer::bearer(&header) {
            Bearer::Token(token) => Some(token),
            Bearer::Nothing | Bearer::Ignored(_) => None,
        };
        for token in in_header.into_iter().chain(in_protocol.as_deref()) {
            let audiences = self.tokens.own_audiences();
            match self
                .tokens
                .authenticate_token(token, audiences, request.now)
                .await
            {
                Ok(known) => return Some(known),
                Err(more) => reasons.extend(more),
            }
        }
        None
    }

    /// An anonymous user, if the request has no credentials and anonymous access is enabled.
    // upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/anonymous/anonymous.go NewAuthenticator
    fn authenticate_anonymous(&self, request: &Credentials<'_>) -> Result<AuthenticatedUser, Status> {
        let shows_nothing =
            !request.headers.contains_key(header::AUTHORIZATION) && request.peer.certificate.is_none();
        if self.localhost
            && shows_nothing
            && localhost::is_local(request.peer.address, request.host, request.headers)
        {
            return Ok(AuthenticatedUser::by(
                AuthenticationMethod::Localhost,
                authenticated(localhost::user()),
            ));
        }
        if self.anonymous == Anonymous::Health && !HEALTH.contains(&request.path) {
            return Err(unauthorized());
        }
        let warning = match bearer::bearer(&bearer::text(request.headers, header::AUTHORIZATION)) {
            Bearer::Ignored(warning) => Some(warning),
            _ => None,
        };
        Ok(AuthenticatedUser {
            warning,
            ..AuthenticatedUser::by(AuthenticationMethod::Anonymous, anonymous())
        })
    }

    /// Authenticates a token for a TokenReview. Without audiences, those of this server apply.
    // upstream: pkg/registry/authentication/tokenreview/storage.go Create
    pub(crate) async fn review(&self, token: &str, audiences: &[String], now: Time) -> TokenReviewResult {
        let audiences = if audiences.is_empty() {
            self.tokens.own_audiences()
        } else {
            audiences
        };
        // As if it came in a header.
        let header = format!("Bearer {token}");
        let Bearer::Token(token) = bearer::bearer(&header) else {
            return match self.anonymous {
                Anonymous::Health => TokenReviewResult::Unknown(None),
                Anonymous::Anything => TokenReviewResult::Authenticated(AuthenticatedUser {
                    audiences: audiences.to_vec(),
                    ..AuthenticatedUser::by(AuthenticationMethod::Anonymous, anonymous())
                }),
            };
        };
        match self.tokens.authenticate_token(token, audiences, now).await {
            Ok(known) => TokenReviewResult::Authenticated(AuthenticatedUser {
                user: authenticated(known.user),
                ..known
            }),
            Err(reasons) => TokenReviewResult::Unknown(Some(reasons.to_string())),
        }
    }

    /// The audiences that this server is.
    pub(crate) fn audiences(&self) -> &[String] {
        self.tokens.own_audiences()
    }

    /// The signer of service account tokens.
    pub(crate) fn signer(&self) -> Arc<Signer> {
        self.keys.signer()
    }

    /// Signs with another key from now on; tokens signed with these additional keys are trusted too.
    pub(crate) fn replace_keys(&self, pkcs8: &[u8], more: &[PublicKey]) -> Result<(), BadSigningKey> {
        let issuer = self.signer().issuer().to_owned();
        self.keys.replace(Signer::new(issuer, pkcs8)?, more);
        Ok(())
    }

    /// The OpenID provider configuration of the service account issuer (`/.well-known/openid-configuration`).
    pub(crate) fn issuer_configuration(&self, address: &str) -> Value {
        self.signer().configuration(address, &self.keys.keys())
    }

    /// The JSON Web Key Set that verifies service account tokens (`/openid/v1/jwks`).
    pub(crate) fn key_set(&self) -> Value {
        keys::key_set(&self.keys.keys())
    }
}

fn unauthorized() -> Status {
    Status::unauthorized("Unauthorized")
}
