//! Token authentication: tries each token authenticator in turn.

use std::fmt;

use k3_api::time::Time;

use super::{
    AuthenticatedUser, TokenFile, bootstrap_token, ephemeral_token,
    key_ring::KeyRing,
    lookup::TokenObjectLookup,
    service_account::{ServiceAccountTokenAuthenticator, ServiceAccountTokenError},
};

/// The result of one token authenticator: the user, not recognized, or why the token is invalid.
pub(super) type TokenResult = Result<Option<AuthenticatedUser>, ServiceAccountTokenError>;

/// Upstream's message for an unknown token.
pub(super) const INVALID: &str = "invalid bearer token";

/// Tries each kind of bearer token.
pub(super) struct TokenAuthenticator {
    file: TokenFile,
    accounts: ServiceAccountTokenAuthenticator,
    lookup: TokenObjectLookup,
    /// The audiences of this server.
    own: Vec<String>,
}

/// The errors of all token authenticators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuthenticationErrors(Vec<String>);

// --- TokenAuthenticator ---

impl TokenAuthenticator {
    pub(super) fn new(
        file: TokenFile,
        issuers: Vec<String>,
        keys: KeyRing,
        own: Vec<String>,
        lookup: TokenObjectLookup,
    ) -> Self {
        let accounts = ServiceAccountTokenAuthenticator::new(issuers, keys, own.clone(), lookup.clone());
        TokenAuthenticator {
            file,
            accounts,
            lookup,
            own,
        }
    }

    /// The audiences of this server.
    pub(super) fn own_audiences(&self) -> &[String] {
        &self.own
    }

    /// Authenticates a token for one of the audiences.
    // upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/union/union.go AuthenticateToken
    pub(super) async fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Time,
    ) -> Result<AuthenticatedUser, AuthenticationErrors> {
        // Static, bootstrap and ephemeral tokens have no audiences: they are valid for those of this server.
        let own: Vec<String> = audiences
            .iter()
            .filter(|audience| self.own.contains(audience))
            .cloned()
            .collect();
        if !own.is_empty()
            && let Some(user) = self.file.user(token)
        {
            return Ok(AuthenticatedUser::by_token(user.clone(), own));
        }
        let mut reasons = AuthenticationErrors::default();
        match self.accounts.authenticate_token(token, audiences, now).await {
            Ok(Some(known)) => return Ok(known),
            Ok(None) => {}
            Err(reason) => reasons.push(reason),
        }
        if !own.is_empty() {
            let found = bootstrap_token::authenticate_token(token, &self.lookup, now)
                .or_else(|| ephemeral_token::authenticate_token(token, &self.lookup, now));
            if let Some(known) = found {
                return Ok(AuthenticatedUser {
                    audiences: own,
                    ..known
                });
            }
        }
        // Upstream tries its own token authenticators first, so their error is the first one.
        reasons.0.insert(0, INVALID.to_owned());
        Err(reasons)
    }
}

// --- AuthenticationErrors ---

impl AuthenticationErrors {
    pub(super) fn push(&mut self, reason: impl fmt::Display) {
        self.0.push(reason.to_string());
    }

    pub(super) fn extend(&mut self, other: AuthenticationErrors) {
        self.0.extend(other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for AuthenticationErrors {
    /// One reason as it is; several in brackets, each once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unique: Vec<&str> = Vec::new();
        for reason in &self.0 {
            if !unique.contains(&reason.as_str()) {
                unique.push(reason);
            }
        }
        match unique.as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_errors_without_duplicates() {
        let unique = |reasons: &[&str]| {
            AuthenticationErrors(reasons.iter().map(ToString::to_string).collect()).to_string()
        };
        assert_eq!(unique(&[INVALID, INVALID]), INVALID);
        assert_eq!(unique(&[INVALID, "a", INVALID]), "[invalid bearer token, a]");
    }
}
