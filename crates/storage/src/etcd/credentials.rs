//! The token that etcd gives for a name and a password.

use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};

use super::{
    failure::{EtcdFailure, EtcdRejection},
    messages::AuthenticateRequest,
    options::Login,
};

/// What etcd hands out at a log-in, and wants to see with each request.
pub(super) type Token = MetadataValue<Ascii>;

/// A log-in and its newest token.
pub(super) struct Credentials {
    login: Login,
    slot: Mutex<TokenSlot>,
}

enum TokenSlot {
    /// No process has logged in yet, or the last token was refused.
    Empty,
    /// The newest token.
    Token(Token),
    /// etcd has no users.
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

    /// The token to send. `authenticate` is called when there is none; others wait for its answer, so
    /// that a hundred requests with an expired token make one log-in.
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

    /// Forgets a token that etcd refused, unless another process has replaced it already.
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
