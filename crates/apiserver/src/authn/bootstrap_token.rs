//! Bootstrap tokens, by which nodes join a cluster: `id.secret`, each stored in a secret of `kube-system`.
//!
//! Promises: such a token authenticates only a `system:bootstrap:` user in groups of bootstrappers; secrets are compared in
//! constant time.

use k3_api::{
    base64,
    strategy::{Tree, User},
    time::Time,
};
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::{AuthenticatedUser, lookup::TokenObjectLookup};

const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_LETTERS: usize = 6;
const SECRET_LETTERS: usize = 16;
/// The longest name of a group, behind its beginning.
const GROUP_LETTERS: usize = 256;

/// Authenticates a bootstrap token.
// upstream: plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go AuthenticateToken
pub(super) fn authenticate_token(
    token: &str,
    lookup: &TokenObjectLookup,
    now: Time,
) -> Option<AuthenticatedUser> {
    let (id, secret) = parse(token)?;
    let stored = lookup
        .get("secrets", "kube-system", &format!("bootstrap-token-{id}"))
        .ok()?
        .tree();
    let data = |key: &str| text(&stored, key);
    if stored.at("metadata").has("deletionTimestamp") || stored.text("type") != TYPE {
        return None;
    }
    if !bool::from(data("token-secret")?.as_bytes().ct_eq(secret.as_bytes())) || data("token-id")? != id {
        return None;
    }
    let expires = match data("expiration")?.as_str() {
        "" => None,
        // What cannot be read has passed.
        time => Some(Time::parse(time).ok()?),
    };
    if expires.is_some_and(|expires| expires <= now) || data("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    let user = User {
        name: format!("system:bootstrap:{id}"),
        groups: groups(&data("auth-extra-groups")?)?,
        ..User::default()
    };
    Some(AuthenticatedUser {
        expires: expires.map(Time::unix_seconds),
        ..AuthenticatedUser::by_token(user, Vec::new())
    })
}

/// The text under a key of a secret, empty if it is not there; `None` if what is there is no text. A time of expiration that
/// cannot be read must not be one that is not set.
pub(super) fn text(secret: &Value, key: &str) -> Option<String> {
    let bytes = base64::decode(secret.at("data").text(key)).ok()?;
    String::from_utf8(bytes).ok()
}

/// The two halves of a token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_word = |word: &str, letters| {
        word.len() == letters
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_word(id, ID_LETTERS) && is_word(secret, SECRET_LETTERS)).then_some((id, secret))
}

/// All groups, in order; `None` if one is for others than bootstrappers.
fn groups(more: &str) -> Option<Vec<String>> {
    let mut groups = vec![GROUP.to_owned()];
    for group in more.split(',').filter(|_| !more.is_empty()) {
        let rest = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_plain = |byte: u8| is_letter(byte) || byte == b':' || byte == b'-';
        let ends_well = rest.bytes().last().is_some_and(is_letter);
        if rest.len() > GROUP_LETTERS || !ends_well || !rest.bytes().all(is_plain) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_bootstrap_token_format() {
        assert_eq!(
            parse("abc123.0123456789abcdef"),
            Some(("abc123", "0123456789abcdef"))
        );
        for token in [
            "",
            "abc123",
            "abc12.0123456789abcdef",
            "abc123.0123456789abcde",
            "ABC123.0123456789abcdef",
            "abc123.0123456789abcdeF",
            "abc123.0123456789abcdef.x",
            "abc12/.0123456789abcdef",
        ] {
            assert_eq!(parse(token), None, "{token}");
        }
    }

    #[test]
    fn rejects_groups_outside_bootstrappers() {
        assert_eq!(groups("").unwrap(), [GROUP]);
        let more = "system:bootstrappers:b,system:bootstrappers:a-1:x,system:bootstrappers:b";
        assert_eq!(
            groups(more).unwrap(),
            [GROUP, "system:bootstrappers:a-1:x", "system:bootstrappers:b"]
        );
        for more in [
            "system:masters",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:A",
            "system:bootstrappers:a-",
            "system:bootstrappers:a,",
        ] {
            assert_eq!(groups(more), None, "{more}");
        }
    }
}
