//! Who is asking: each way of proving it is looked at in turn, until one proves it.
//!
//! Promises: a credential that is shown and proves nothing is a refusal, whatever else would be allowed without it; neither
//! tokens nor parts of them come into answers or the log.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header};
use k3_api::{status::Status, strategy::User, time::Time};
use rustls::server::danger::ClientCertVerifier;
use serde_json::Value;

use super::{
    BadSigningKey, KubectlRule, PublicKey, ShownCertificate, Signer, TokenFile, anonymous, authenticated,
    bearer::{self, Bearer},
    key_ring::KeyRing,
    keys, localhost,
    lookup::Lookup,
    tokens::{Reasons, Tokens},
};
use crate::cache::Caches;

/// Paths that tell how the server is, which those ask who have no credentials.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// How users are known.
#[derive(Debug, Default)]
pub struct Authentication {
    /// Users by their static tokens.
    pub tokens: TokenFile,
    /// What requests without credentials may ask for.
    pub anonymous: Anonymous,
    /// What decides whether a client certificate is believed; without it, none is.
    pub certificates: Option<Arc<dyn ClientCertVerifier>>,
    /// Further issuers whose service-account tokens are believed, beside the one that this server is.
    pub more_issuers: Vec<String>,
    /// Further keys that such tokens may be signed with, beside the one that this server signs with.
    pub more_keys: Vec<PublicKey>,
    /// The audiences that this server is. None: its issuer.
    pub audiences: Vec<String>,
    /// Whether requests from this machine without credentials may do everything. Whoever can open a connection from
    /// here, such as any program of any user, then owns the cluster.
    pub localhost: bool,
    /// What kubectl may do.
    pub kubectl: KubectlRule,
}

/// What requests without credentials may ask for, as `system:anonymous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Whether the server is well.
    #[default]
    Health,
    /// What roles allow them.
    Anything,
}

/// Who is at the other end of a connection.
#[derive(Default)]
pub(crate) struct Peer {
    /// Where it is; `None` if there is no socket.
    pub address: Option<SocketAddr>,
    /// The certificate it showed. It has the key for it; nothing else is known.
    pub certificate: Option<ShownCertificate>,
    /// Who it is, if it is part of this process.
    pub inside: Option<User>,
}

/// What an authenticator is told of a request.
pub(crate) struct Credentials<'r> {
    pub headers: &'r HeaderMap,
    pub path: &'r str,
    /// The host that the request is for.
    pub host: &'r str,
    pub peer: &'r Peer,
    pub now: Time,
}

/// Who is known, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub user: User,
    /// For which of the audiences that were asked for.
    pub audiences: Vec<String>,
    /// When the credential ends, in seconds since 1970, if it does.
    pub expires: Option<i64>,
    pub way: Way,
    /// What the client is told besides.
    pub warning: Option<&'static str>,
}

/// How somebody is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Certificate,
    Token,
    Localhost,
    Anonymous,
    /// Part of this process.
    Inside,
}

/// Whose a token is, as a review tells it.
pub(crate) enum Reviewed {
    /// It is this user's.
    Known(Known),
    /// It is nobody's; there may be a reason.
    Unknown(Option<String>),
}

/// What finds out who is asking.
pub(crate) struct Authenticator {
    tokens: Tokens,
    keys: KeyRing,
    anonymous: Anonymous,
    certificates: Option<Arc<dyn ClientCertVerifier>>,
    localhost: bool,
    kubectl: KubectlRule,
}

// --- Known ---

impl Known {
    /// Who bears a token that does not end.
    pub(super) fn by_token(user: User, audiences: Vec<String>) -> Self {
        Known {
            user,
            audiences,
            expires: None,
            way: Way::Token,
            warning: None,
        }
    }

    fn by(way: Way, user: User) -> Self {
        Known {
            way,
            ..Known::by_token(user, Vec::new())
        }
    }
}

// --- Authenticator ---

impl Authenticator {
    /// An authenticator over a cluster.
    pub(crate) fn new(options: Authentication, signer: Signer, caches: Arc<Caches>) -> Self {
        let mut issuers = vec![signer.issuer().to_owned()];
        issuers.extend(options.more_issuers);
        let mut audiences = options.audiences;
        if audiences.is_empty() {
            audiences.clone_from(&issuers);
        }
        let keys = KeyRing::new(signer, options.more_keys);
        let tokens = Tokens::new(
            options.tokens,
            issuers,
            keys.clone(),
            audiences,
            Lookup::new(caches),
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

    /// Finds out who is asking, or refuses the request.
    pub(crate) async fn authenticate(&self, request: &Credentials<'_>) -> Result<Known, Status> {
        let agent = bearer::text(request.headers, header::USER_AGENT);
        self.kubectl.check_agent(&agent)?;
        if let Some(user) = &request.peer.inside {
            return Ok(Known::by(Way::Inside, authenticated(user.clone())));
        }
        let mut reasons = Reasons::default();
        match self.shown(request, &mut reasons).await {
            Some(known) => {
                self.kubectl.check_token(&agent, &known, request.now)?;
                Ok(Known {
                    user: authenticated(known.user),
                    ..known
                })
            }
            None if reasons.is_empty() => self.unshown(request),
            None => {
                tracing::debug!(%reasons, path = request.path, "a request shows credentials that prove nothing");
                Err(refusal())
            }
        }
    }

    /// Who is known by the credentials that are shown.
    async fn shown(&self, request: &Credentials<'_>, reasons: &mut Reasons) -> Option<Known> {
        if let (Some(shown), Some(verifier)) = (&request.peer.certificate, &self.certificates) {
            match shown.user(verifier.as_ref(), request.now) {
                Ok(Some(user)) => return Some(Known::by(Way::Certificate, user)),
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
            match self.tokens.find(token, audiences, request.now).await {
                Ok(known) => return Some(known),
                Err(more) => reasons.extend(more),
            }
        }
        None
    }

    /// Who is meant by a request that shows nothing, or nothing that is looked at.
    fn unshown(&self, request: &Credentials<'_>) -> Result<Known, Status> {
        let shows_nothing =
            !request.headers.contains_key(header::AUTHORIZATION) && request.peer.certificate.is_none();
        if self.localhost
            && shows_nothing
            && localhost::is_local(request.peer.address, request.host, request.headers)
        {
            return Ok(Known::by(Way::Localhost, authenticated(localhost::user())));
        }
        if self.anonymous == Anonymous::Health && !HEALTH.contains(&request.path) {
            return Err(refusal());
        }
        let warning = match bearer::bearer(&bearer::text(request.headers, header::AUTHORIZATION)) {
            Bearer::Ignored(warning) => Some(warning),
            _ => None,
        };
        Ok(Known {
            warning,
            ..Known::by(Way::Anonymous, anonymous())
        })
    }

    /// Whose a token is, for one who asks about it. Without audiences, those of this server are meant.
    pub(crate) async fn review(&self, token: &str, audiences: &[String], now: Time) -> Reviewed {
        let audiences = if audiences.is_empty() {
            self.tokens.own_audiences()
        } else {
            audiences
        };
        // As if it came in a header.
        let header = format!("Bearer {token}");
        let Bearer::Token(token) = bearer::bearer(&header) else {
            return match self.anonymous {
                Anonymous::Health => Reviewed::Unknown(None),
                Anonymous::Anything => Reviewed::Known(Known {
                    audiences: audiences.to_vec(),
                    ..Known::by(Way::Anonymous, anonymous())
                }),
            };
        };
        match self.tokens.find(token, audiences, now).await {
            Ok(known) => Reviewed::Known(Known {
                user: authenticated(known.user),
                ..known
            }),
            Err(reasons) => Reviewed::Unknown(Some(reasons.to_string())),
        }
    }

    /// The audiences that this server is.
    pub(crate) fn audiences(&self) -> &[String] {
        self.tokens.own_audiences()
    }

    /// What signs the tokens of service accounts.
    pub(crate) fn signer(&self) -> Arc<Signer> {
        self.keys.signer()
    }

    /// Signs with another key from now on; tokens of these further keys are believed too.
    pub(crate) fn replace_keys(&self, pkcs8: &[u8], more: &[PublicKey]) -> Result<(), BadSigningKey> {
        let issuer = self.signer().issuer().to_owned();
        self.keys.replace(Signer::new(issuer, pkcs8)?, more);
        Ok(())
    }

    /// What those who verify tokens elsewhere ask first; this server is found at an address.
    pub(crate) fn issuer_configuration(&self, address: &str) -> Value {
        self.signer().configuration(address, &self.keys.keys())
    }

    /// The keys that verify tokens, for those who do so elsewhere.
    pub(crate) fn key_set(&self) -> Value {
        keys::key_set(&self.keys.keys())
    }
}

fn refusal() -> Status {
    Status::unauthorized("Unauthorized")
}
