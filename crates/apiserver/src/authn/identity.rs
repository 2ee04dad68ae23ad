//! The names that the server itself gives: who is nobody, and the groups that everybody is in.

use k3_api::strategy::User;

pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who asks without credentials.
pub(crate) fn anonymous() -> User {
    User {
        name: ANONYMOUS.to_owned(),
        groups: vec![UNAUTHENTICATED.to_owned()],
        ..User::default()
    }
}

/// The user, also as a member of `system:authenticated`. Credentials that say `system:anonymous`, or one of
/// the two groups, have said themselves what they are worth.
pub(crate) fn authenticated(mut user: User) -> User {
    let says_itself = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if user.name != ANONYMOUS && !user.groups.iter().any(says_itself) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(name: &str, groups: &[&str]) -> Vec<String> {
        let user = User {
            name: name.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..User::default()
        };
        authenticated(user).groups
    }

    #[test]
    fn a_user_joins_the_authenticated_ones_once() {
        assert_eq!(groups("alice", &["devs"]), ["devs", AUTHENTICATED]);
        assert_eq!(groups("alice", &[AUTHENTICATED, "devs"]), [AUTHENTICATED, "devs"]);
    }

    #[test]
    fn nobody_becomes_authenticated_by_name() {
        assert_eq!(groups(ANONYMOUS, &[]), [""; 0]);
        assert_eq!(groups("alice", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
        assert_eq!(authenticated(anonymous()), anonymous());
    }
}
