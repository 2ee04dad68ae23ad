//! Optional restrictions for kubectl.
//!
//! kubectl is known by what it calls itself, so this is a rule for those who keep to rules: it guards against habits, such as
//! a token that lies in a kubeconfig for years, and not against attackers.

use std::time::Duration;

use k3_api::{
    status::{GroupResource, Status},
    time::Time,
};

use super::{AuthenticatedUser, AuthenticationMethod, lookup::LEEWAY};

/// The message for kubectl where it is disabled.
const DISABLED: &str =
    "kubectl disabled: this server does not accept requests of kubectl (--kubectl-disabled)";

/// Whether a request was refused because kubectl sent it.
pub(crate) fn is_kubectl_rejection(status: &Status) -> bool {
    status.code == 403 && status.message == DISABLED
}

/// What kubectl may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubectlRule {
    /// What everybody may.
    #[default]
    Anything,
    /// Nothing at all.
    Nothing,
    /// Use tokens that end within this time. Client certificates are not tokens, and are not concerned.
    ShortTokens(Duration),
}

// --- KubectlRule ---

impl KubectlRule {
    /// Refuses a program that may do nothing.
    pub(super) fn check_agent(self, agent: &str) -> Result<(), Status> {
        if self == Self::Nothing && is_kubectl(agent) {
            let mut status = Status::forbidden(GroupResource::new("", ""), "", "");
            DISABLED.clone_into(&mut status.message);
            status.details = None;
            return Err(status);
        }
        Ok(())
    }

    /// Refuses a token that this program may not use.
    pub(super) fn check_token(self, agent: &str, known: &AuthenticatedUser, now: Time) -> Result<(), Status> {
        let Self::ShortTokens(longest) = self else {
            return Ok(());
        };
        if known.way != AuthenticationMethod::Token || !is_kubectl(agent) {
            return Ok(());
        }
        let longest = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        let left = known.expires.map(|expires| expires - now.unix_seconds());
        if left.is_some_and(|left| left > 0 && left <= longest.saturating_add(LEEWAY)) {
            return Ok(());
        }
        let why = format!(
            "Unauthorized: kubectl may only use tokens here that end within {longest} seconds; `k3 token create` makes one"
        );
        Err(Status::unauthorized(&why))
    }
}

fn is_kubectl(agent: &str) -> bool {
    agent.starts_with("kubectl")
}

#[cfg(test)]
mod tests {
    use k3_api::strategy::User;

    use super::*;

    const KUBECTL: &str = "kubectl/v1.37.0 (linux/amd64) kubernetes/abc";

    #[test]
    fn rejects_kubectl_when_disabled() {
        let refused = KubectlRule::Nothing.check_agent(KUBECTL).unwrap_err();
        assert_eq!(refused.code, 403);
        assert!(refused.message.starts_with("kubectl disabled"));
        assert!(KubectlRule::Nothing.check_agent("curl/8").is_ok());
        assert!(KubectlRule::Anything.check_agent(KUBECTL).is_ok());
    }

    #[test]
    fn rejects_long_lived_token_of_kubectl() {
        let rule = KubectlRule::ShortTokens(Duration::from_hours(1));
        let check = |agent, expires, way| {
            let known = AuthenticatedUser {
                expires,
                way,
                ..AuthenticatedUser::by_token(User::default(), Vec::new())
            };
            rule.check_token(agent, &known, Time::from_unix(1000, 0))
                .map_err(|status| status.code)
        };
        assert_eq!(
            check(KUBECTL, Some(1000 + 3600), AuthenticationMethod::Token),
            Ok(())
        );
        assert_eq!(check(KUBECTL, None, AuthenticationMethod::Token), Err(401));
        assert_eq!(
            check(KUBECTL, Some(1000 + 7200), AuthenticationMethod::Token),
            Err(401)
        );
        assert_eq!(check(KUBECTL, Some(1000), AuthenticationMethod::Token), Err(401));
        assert_eq!(check("curl/8", None, AuthenticationMethod::Token), Ok(()));
        assert_eq!(check(KUBECTL, None, AuthenticationMethod::Certificate), Ok(()));
    }
}
