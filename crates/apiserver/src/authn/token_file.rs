//! Static tokens from a file: `token,user,uid[,"group1,group2"]` a line.
//!
//! Promises: what upstream reads from such a file is read from it here, and what it refuses is refused, with
//! the line that is at fault; a token never shows in a message.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use k3_api::strategy::User;

use super::{
    authenticated,
    csv::{CsvReader, unix_lines},
};

/// Users by their tokens.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, User>,
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read the token file {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("token file {}, line {line}: {problem}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
        /// What is wrong; it never quotes the line.
        problem: TokenFileProblem,
    },
}

/// What is wrong with a line of a token file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileProblem {
    /// Not enough columns.
    #[error("must have at least 3 columns (token, user name, user uid), found {0}")]
    Columns(usize),
    /// A quote where none may be.
    #[error(
        "a quote (\") inside a field that does not begin with one; quote the whole field and double the quote"
    )]
    BareQuote,
    /// A quoted field without closing quote, or with text after it.
    #[error("a quoted field must end with a quote (\") before the next comma or the end of the line")]
    Quote,
}

// --- TokenFile ---

impl TokenFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = fs::read_to_string(path).map_err(|source| TokenFileError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of the file at `path`, which is only named in messages.
    // upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go NewCSV
    pub fn parse(text: &str, path: &Path) -> Result<Self, TokenFileError> {
        let at = |(line, problem)| TokenFileError::Line {
            path: path.to_path_buf(),
            line,
            problem,
        };
        let mut users = HashMap::new();
        let text = unix_lines(text);
        let mut records = CsvReader::new(&text);
        while let Some((line, fields)) = records.next().map_err(at)? {
            let columns = fields.len();
            let mut fields = fields.into_iter();
            let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(at((line, TokenFileProblem::Columns(columns))));
            };
            if token.is_empty() {
                tracing::warn!(file = %path.display(), line, "empty token in token file, line ignored");
                continue;
            }
            let groups = fields
                .next()
                .map_or_else(Vec::new, |groups| groups.split(',').map(str::to_owned).collect());
            let user = authenticated(User {
                name,
                uid,
                groups,
                extra: Vec::new(),
            });
            if users.insert(token, user).is_some() {
                tracing::warn!(file = %path.display(), line, "duplicate token in token file, the last line wins");
            }
        }
        Ok(Self { users })
    }

    /// The user with a token.
    pub fn user(&self, token: &str) -> Option<&User> {
        self.users.get(token)
    }
}

impl std::fmt::Debug for TokenFile {
    /// Tokens are secrets: only their number is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenFile({} tokens)", self.users.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TokenFile, TokenFileError> {
        TokenFile::parse(text, Path::new("tokens.csv"))
    }

    #[test]
    fn parses_users_and_groups() {
        let tokens = parse("t1,admin,u-1,\"system:masters,devs\"\nt2,alice,u-2\n").unwrap();
        let admin = tokens.user("t1").unwrap();
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "u-1"));
        assert_eq!(admin.groups, ["system:masters", "devs", "system:authenticated"]);
        let alice = tokens.user("t2").unwrap();
        assert_eq!(alice.groups, ["system:authenticated"]);
        assert!(tokens.user("t3").is_none());
    }

    #[test]
    fn groups_are_one_column_and_extra_columns_are_ignored() {
        let tokens = parse("t,alice,u,devs,qa\n").unwrap();
        assert_eq!(tokens.user("t").unwrap().groups, ["devs", "system:authenticated"]);
    }

    #[test]
    fn rejects_too_few_columns_without_showing_token() {
        let error = parse("t1,admin,u\n\ns3cret,alice\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "token file tokens.csv, line 3: must have at least 3 columns (token, user name, user uid), found 2"
        );
    }

    #[test]
    fn last_duplicate_token_wins() {
        let tokens = parse("t,alice,u1\nt,bob,u2\n").unwrap();
        assert_eq!(tokens.user("t").unwrap().name, "bob");
    }

    #[test]
    fn skips_empty_token() {
        let tokens = parse(",alice,u1\nt,bob,u2\n").unwrap();
        assert!(tokens.user("").is_none());
        assert!(tokens.user("t").is_some());
    }

    #[test]
    fn debug_output_hides_tokens() {
        let authenticate_credentials = format!("{:?}", parse("s3cret,alice,u\n").unwrap());
        assert_eq!(authenticate_credentials, "TokenFile(1 tokens)");
    }

    #[test]
    fn error_names_missing_file() {
        let error = TokenFile::read(Path::new("nowhere/tokens.csv")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the token file nowhere/tokens.csv");
    }
}
