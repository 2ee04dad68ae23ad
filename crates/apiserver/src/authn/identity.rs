//! Well-known user and group names that the server assigns: anonymous, authenticated and unauthenticated.

use k3_api::strategy::User;

pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user of requests without credentials.
pub(crate) fn anonymous() -> User {
    User {
        name: ANONYMOUS.to_owned(),
        groups: vec![UNAUTHENTICATED.to_owned()],
        ..User::default()
    }
}

/// The user, also as a member of `system:authenticated`. Credentials that say `system:anonymous`, or one of
/// the two groups, have said themselves what they are worth.
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/group/authenticated_group_adder.go AuthenticateRequest
pub(crate) fn authenticated(mut user: User) -> User {
    let is_reserved_group = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if user.name != ANONYMOUS && !user.groups.iter().any(is_reserved_group) {
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
    fn adds_authenticated_group_once() {
        assert_eq!(groups("alice", &["devs"]), ["devs", AUTHENTICATED]);
        assert_eq!(groups("alice", &[AUTHENTICATED, "devs"]), [AUTHENTICATED, "devs"]);
    }

    #[test]
    fn anonymous_never_gets_authenticated_group() {
        assert_eq!(groups(ANONYMOUS, &[]), [""; 0]);
        assert_eq!(groups("alice", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
        assert_eq!(authenticated(anonymous()), anonymous());
    }
}
