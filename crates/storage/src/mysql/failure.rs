//! Classification of driver errors: temporary or permanent.

use sqlx::mysql::MySqlDatabaseError;

use super::BACKEND;
use crate::{StoreError, plain_error};

/// The error of a statement. Its connection is dropped, so the server rolls the transaction back.
#[derive(Debug)]
pub(super) enum MysqlFailure {
    /// A temporary error: the connection broke, or the server requests a retry.
    Transient(StoreError),
    /// A permanent error: an immediate retry would fail too.
    Permanent(StoreError),
}

/// Numbers of server errors after which the same statement may succeed on a new connection.
const TRANSIENT: [u16; 18] = [
    1040, // too many connections
    1042, // cannot resolve the client's address
    1043, // bad handshake: the server disconnected in the middle of it
    1053, // server shutdown in progress
    1079, // the same, older name
    1152, // aborted connection
    1158, 1159, 1160, 1161, // network errors and time-outs
    1184, // aborted connection
    1203, // too many connections of this user
    1205, // lock wait time-out
    1213, // deadlock
    1317, // interrupted: another process killed the statement
    1927, // connection was killed (MariaDB)
    3169, // session was killed (MySQL)
    4031, // disconnected because of inactivity (MySQL)
];

/// Server errors about missing disk space: disk full, write error on a file, table full, undo full.
const FULL: [u16; 4] = [1021, 1026, 1114, 1637];
/// Duplicate key: a revision was used twice, or an import contains one twice.
const DUPLICATE: u16 = 1062;
/// "Got error N from storage engine": the text reports which.
const ENGINE_ERROR: u16 = 1030;
const ACCESS_DENIED_TO_DATABASE: u16 = 1044;
const ACCESS_DENIED: u16 = 1045;
const UNKNOWN_DATABASE: u16 = 1049;
const NO_SUCH_TABLE: u16 = 1146;

// --- MysqlFailure ---

impl MysqlFailure {
    /// The store error for the caller.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Transient(error) | Self::Permanent(error) => error,
        }
    }

    /// Classifies a driver error. `location` names the server in messages.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(super) fn of(error: sqlx::Error, location: &str) -> Self {
        match &error {
            sqlx::Error::Database(said) => {
                let Some(number) = number(&error) else {
                    return Self::Permanent(from_driver(&error, location));
                };
                let message = said.message();
                let no_space =
                    number == ENGINE_ERROR && (message.contains("28") || message.contains("space"));
                if FULL.contains(&number) || no_space {
                    return Self::Permanent(StoreError::Full {
                        location: location.to_owned(),
                        message: message.to_owned(),
                    });
                }
                if number == DUPLICATE {
                    return Self::Permanent(StoreError::Corrupt(format!("{location}: {message}")));
                }
                if TRANSIENT.contains(&number) {
                    return Self::Transient(from_driver(&error, location));
                }
                Self::Permanent(from_driver(&error, location))
            }
            // After these the stream of packets is in an unknown state, or has ended.
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
                Self::Transient(from_driver(&error, location))
            }
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::RowNotFound => {
                tracing::debug!(%error, "unexpected rows");
                Self::Permanent(StoreError::Corrupt(format!(
                    "{location}: the tables do not have the rows or columns that they should"
                )))
            }
            _ => Self::Permanent(from_driver(&error, location)),
        }
    }
}

/// The error of a timeout.
pub(super) fn timed_out() -> StoreError {
    unavailable("it does not answer in time")
}

/// An error that this backend detected itself.
pub(super) fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError::Unavailable {
        backend: BACKEND,
        message: message.into(),
        source: None,
    }
}

/// Whether the database does not exist.
pub(super) fn is_unknown_database(error: &sqlx::Error) -> bool {
    number(error) == Some(UNKNOWN_DATABASE)
}

/// Whether the table does not exist.
pub(super) fn is_missing_table(error: &sqlx::Error) -> bool {
    number(error) == Some(NO_SUCH_TABLE)
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let said = error.as_database_error()?;
    Some(said.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn from_driver(error: &sqlx::Error, location: &str) -> StoreError {
    let message = match (error, number(error)) {
        (_, Some(number @ (ACCESS_DENIED | ACCESS_DENIED_TO_DATABASE))) => {
            format!("access denied (error {number}); check the user, the password and the user's grants")
        }
        (sqlx::Error::Database(said), Some(number)) => {
            format!("the server answered: {} (error {number})", said.message())
        }
        (sqlx::Error::Protocol(_), _) => {
            "the server does not speak the MySQL protocol; check the port".to_owned()
        }
        (sqlx::Error::Tls(cause), _) => plain_error::describe(&**cause),
        _ => plain_error::describe(error),
    };
    tracing::debug!(%error, "MySQL request failed");
    unavailable(format!("{location}: {message}"))
}
