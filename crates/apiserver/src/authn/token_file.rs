//! Static tokens from a file: `token,user,uid[,"group1,group2"]` a line.

use std::collections::HashMap;

use k3_api::rules::User;

/// Users by their tokens.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, User>,
}

// --- TokenFile ---

impl TokenFile {
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
