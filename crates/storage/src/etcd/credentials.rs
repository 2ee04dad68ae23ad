//! Authentication tokens of etcd.

use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};

use super::{
    failure::{EtcdFailure, EtcdRejection},
    messages::AuthenticateRequest,
    options::Login,
};

/// An authentication token, sent with each request.
pub(super) type Token = MetadataValue<Ascii>;

/// A user name and password with the newest token.
pub(super) struct Credentials {
    login: Login,
    slot: Mutex<TokenSlot>,
}

enum TokenSlot {
    /// Not authenticated yet, or the last token was rejected.
    Empty,
    /// The newest token.
    Token(Token),
    /// Authentication is not enabled in etcd.
    NotNeeded,
}

// --- Credentials ---

impl Credentials {
    pub(super) fn new(login: Login) -> Self {
        Self {
            login,
            slot: Mutex::new(TokenSlot::Empty),
        }
    }

    /// Returns the token. Calls `authenticate` if there is none; concurrent callers wait for its result, so that many requests
    /// with an expired token cause a single authentication.
    pub(super) async fn token(
        &self,
        authenticate: impl AsyncFnOnce(AuthenticateRequest) -> Result<String, EtcdFailure>,
    ) -> Result<Option<Token>, EtcdFailure> {
        let mut slot = self.slot.lock().await;
        match &*slot {
            TokenSlot::Token(token) => return Ok(Some(token.clone())),
            TokenSlot::NotNeeded => return Ok(None),
            TokenSlot::Empty => {}
        }
        let request = AuthenticateRequest {
            name: self.login.username.clone(),
            password: self.login.password.clone(),
        };
        match authenticate(request).await {
            Ok(text) => {
                let mut token = Token::try_from(text).map_err(|_| {
                    EtcdFailure::new(tonic::Status::internal("etcd gave a token that cannot be sent"))
                })?;
                token.set_sensitive(true);
                *slot = TokenSlot::Token(token.clone());
                Ok(Some(token))
            }
            Err(failure) if failure.rejection() == Some(EtcdRejection::LoginDisabled) => {
                *slot = TokenSlot::NotNeeded;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Discards a rejected token, unless it was replaced already.
    pub(super) async fn discard(&self, refused: Option<&Token>) {
        let mut slot = self.slot.lock().await;
        let current = match &*slot {
            TokenSlot::Token(token) => Some(token),
            TokenSlot::NotNeeded | TokenSlot::Empty => None,
        };
        if current == refused {
            *slot = TokenSlot::Empty;
        }
    }
}
