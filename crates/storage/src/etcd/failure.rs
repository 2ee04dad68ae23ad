//! Why a request failed, and above all whether it may have happened.

use std::error::Error;

use tonic::{Code, ConnectError, Status};

use super::BACKEND;
use crate::{StoreError, plain_error};

/// A request that got no good answer.
#[derive(Debug)]
pub(super) enum EtcdFailure {
    /// No member took it: it did not happen.
    Unsent(Status),
    /// A member refused it: it did not happen.
    Refused(Status),
    /// It was sent, and then the answer did not arrive: it may have happened.
    Unknown(Status),
    /// It was not sent, for a reason of our own.
    Ours(StoreError),
}

/// What a rejection means, where it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdRejection {
    /// The revision requested is compacted.
    Compacted,
    /// The revision requested has not happened.
    Future,
    /// The request is over etcd's size limit.
    TooLarge,
    /// etcd has used up its space quota.
    Full,
    /// A lease with this id exists.
    LeaseExists,
    /// The log-in has expired, or none was sent.
    LoginNeeded,
    /// The name or the password is wrong.
    LoginWrong,
    /// There is nothing to log in to.
    LoginDisabled,
    /// The member found its data damaged.
    Corrupt,
    /// Something else.
    Other,
}

// --- EtcdFailure ---

impl EtcdFailure {
    pub(super) fn new(status: Status) -> Self {
        if is_unsent(&status) {
            return Self::Unsent(status);
        }
        // Of what the transport reports only that much is certain.
        if status.source().is_some() {
            return Self::Unknown(status);
        }
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => Self::Refused(status),
            _ => Self::Unknown(status),
        }
    }

    /// The answer did not arrive in time.
    pub(super) fn late() -> Self {
        Self::Unknown(Status::deadline_exceeded("no answer in time"))
    }

    pub(super) fn rejection(&self) -> Option<EtcdRejection> {
        match self {
            Self::Refused(status) => Some(EtcdRejection::of(status)),
            Self::Unsent(_) | Self::Unknown(_) | Self::Ours(_) => None,
        }
    }

    /// The failure as one of the store at `location`.
    pub(super) fn into_store_error(self, location: &str) -> StoreError {
        let status = match self {
            Self::Ours(error) => return error,
            Self::Unsent(status) | Self::Refused(status) | Self::Unknown(status) => status,
        };
        match EtcdRejection::of(&status) {
            EtcdRejection::Full => full(location),
            EtcdRejection::Corrupt => StoreError::Corrupt(status.message().to_owned()),
            _ => {
                tracing::debug!(%status, "etcd request failed");
                StoreError::Unavailable {
                    backend: BACKEND,
                    message: format!("{location}: {}", describe(&status)),
                    source: None,
                }
            }
        }
    }
}

/// etcd has reached its quota. It takes no writes until an operator has made space and disarmed it.
pub(super) fn full(location: &str) -> StoreError {
    StoreError::Full {
        location: location.to_owned(),
        message: "etcd has used up its space quota (compact it, defragment it, and disarm its alarm)"
            .to_owned(),
    }
}

fn describe(status: &Status) -> String {
    match status.source() {
        // Of a transport error, the library's own message reports nothing; the cause reports it all.
        Some(cause) => plain_error::describe(cause),
        None if status.code() == Code::DeadlineExceeded => {
            "no answer in time; check that etcd is healthy and not overloaded".to_owned()
        }
        None => format!("etcd answered: {}", status.message()),
    }
}

/// Whether the request never reached a member that works on requests.
fn is_unsent(status: &Status) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        // Either there is no connection, or the request was still waiting in line when it closed.
        let waiting = error.downcast_ref().is_some_and(hyper::Error::is_canceled);
        if waiting || error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    // A member that knows no leader turns requests away at its door, because each reports that it needs one.
    status.code() == Code::Unavailable && status.message().contains("etcdserver: no leader")
}

// --- Refusal ---

impl EtcdRejection {
    /// etcd reports most of its errors apart by their text only.
    fn of(status: &Status) -> Self {
        let message_contains = |text| status.message().contains(text);
        match status.code() {
            Code::OutOfRange if message_contains("has been compacted") => Self::Compacted,
            Code::OutOfRange if message_contains("future revision") => Self::Future,
            Code::InvalidArgument if message_contains("request is too large") => Self::TooLarge,
            Code::ResourceExhausted if message_contains("message larger than max") => Self::TooLarge,
            Code::ResourceExhausted if message_contains("space exceeded") => Self::Full,
            Code::FailedPrecondition if message_contains("lease already exists") => Self::LeaseExists,
            Code::FailedPrecondition if message_contains("authentication is not enabled") => {
                Self::LoginDisabled
            }
            Code::Unauthenticated if message_contains("invalid auth token") => Self::LoginNeeded,
            Code::InvalidArgument if message_contains("user name is empty") => Self::LoginNeeded,
            // Another process changed users or roles since the token was made.
            Code::InvalidArgument if message_contains("revision in auth store is old") => Self::LoginNeeded,
            Code::InvalidArgument if message_contains("authentication failed") => Self::LoginWrong,
            Code::DataLoss => Self::Corrupt,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn reports_failure_only_when_the_write_cannot_have_happened() {
        let mut unreached = Status::unavailable("tcp connect error");
        unreached.set_source(Arc::new(ConnectError("refused".into())));
        assert!(matches!(EtcdFailure::new(unreached), EtcdFailure::Unsent(_)));
        assert!(matches!(
            EtcdFailure::new(Status::unavailable("etcdserver: no leader")),
            EtcdFailure::Unsent(_)
        ));
        for status in [
            Status::unavailable("etcdserver: request timed out"),
            Status::unavailable("etcdserver: leader changed"),
            Status::unknown("transport error"),
            Status::cancelled("h2"),
            Status::internal("h2"),
        ] {
            assert!(matches!(EtcdFailure::new(status), EtcdFailure::Unknown(_)));
        }
        let mut hung_up = Status::resource_exhausted("h2: calm down");
        hung_up.set_source(Arc::new(std::io::Error::other("h2")));
        assert!(matches!(EtcdFailure::new(hung_up), EtcdFailure::Unknown(_)));
        assert!(matches!(
            EtcdFailure::new(Status::invalid_argument("etcdserver: duplicate key")),
            EtcdFailure::Refused(_)
        ));
    }
}
