//! Impersonation, also constrained (KEP-5284).
//!
//! Promises: impersonation requires permission, and the original user is kept. Constrained modes are tried first: they also
//! require permission for the action (`impersonate-on:<mode>:<verb>`). Then the legacy mode, in which `impersonate` is enough.
//! The first error is reported.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

use http::HeaderMap;
use k3_api::{
    field::Path,
    go::quote,
    name::{self, NameFormat},
    status::Status,
    strategy::User,
};
use parking_lot::Mutex;

use super::{AuthorizationAttributes, AuthorizationTarget, Authorizer, MASTERS, ResourceAttributes};
use crate::{
    authn::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED},
    request::{PlusSign, RequestInfo, decode},
};

/// The effective user of a request, and the impersonator if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    /// Who it is answered for.
    pub user: User,
    /// The original user, if impersonating.
    pub impersonator: Option<Box<Impersonator>>,
}

/// The user that impersonates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonator {
    /// Who it is.
    pub user: User,
    /// The verb that let them: empty in the old mode.
    pub constraint: String,
}

/// The last successful impersonation mode of a user, tried first next time.
#[derive(Default)]
pub(super) struct ImpersonationModeCache(Mutex<HashMap<u64, ImpersonationMode>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpersonationMode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::ArbitraryNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Legacy,
];
/// For how many users a mode is remembered.
const MAX_REMEMBERED: usize = 10_000;
/// From how many values on it is first asked about all at once.
const MANY: usize = 4;

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const EXTRA: &str = "impersonate-extra-";

// --- Authorizer ---

impl Authorizer {
    /// The effective user of a request: the authenticated one, or the impersonated one if that is allowed.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/impersonation.go WithImpersonation
    pub(crate) fn impersonate(
        &self,
        requestor: User,
        headers: &HeaderMap,
        info: &RequestInfo,
    ) -> Result<RequestIdentity, Status> {
        let Some(wanted) = wanted(headers)? else {
            return Ok(RequestIdentity {
                user: requestor,
                impersonator: None,
            });
        };
        let last = self.modes.last(&requestor);
        let modes = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_error = None;
        for mode in last.into_iter().chain(modes) {
            if !mode.is_for(&wanted, &requestor) {
                continue;
            }
            match self.become_in(mode, &wanted, &requestor, info) {
                Ok(user) => {
                    if last != Some(mode) {
                        self.modes.remember(&requestor, mode);
                    }
                    let constraint = mode.constraint();
                    return Ok(RequestIdentity {
                        user,
                        impersonator: Some(Box::new(Impersonator {
                            user: requestor,
                            constraint,
                        })),
                    });
                }
                Err(status) => first_error = first_error.or(Some(status)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::unknown("all impersonation modes failed")))
    }

    fn become_in(
        &self,
        mode: ImpersonationMode,
        wanted: &User,
        requestor: &User,
        info: &RequestInfo,
    ) -> Result<User, Status> {
        if let Some(name) = mode.name() {
            let verb = format!("impersonate-on:{name}:{}", info.verb);
            self.require(&info.action_with(requestor, &verb))?;
        }
        let check = ImpersonationCheck {
            authorizer: self,
            requestor,
            mode,
            verb: &mode.verb(),
        };
        let mut user = check.user(wanted)?;
        check.uid(&wanted.uid)?;
        check.groups(&wanted.groups)?;
        check.extra(&wanted.extra)?;
        let has = |user: &User, group: &str| user.groups.iter().any(|own| own == group);
        let group = match user.name.as_str() {
            ANONYMOUS => Some(UNAUTHENTICATED),
            _ if has(&user, UNAUTHENTICATED) => None,
            _ => Some(AUTHENTICATED),
        };
        if let Some(group) = group
            && !has(&user, group)
        {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }
}

// --- ImpersonationModeCache ---

impl ImpersonationModeCache {
    fn last(&self, user: &User) -> Option<ImpersonationMode> {
        let modes = self.0.lock();
        modes.get(&number(user)).copied()
    }

    fn remember(&self, user: &User, mode: ImpersonationMode) {
        let mut modes = self.0.lock();
        if modes.len() >= MAX_REMEMBERED {
            modes.clear();
        }
        modes.insert(number(user), mode);
    }
}

/// Names may be long, so their numbers are kept. Two users with one number only ask in another order.
fn number(user: &User) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.name.hash(&mut hasher);
    hasher.finish()
}

// --- ImpersonationMode ---

impl ImpersonationMode {
    /// The name in verbs; the old mode has none.
    fn name(self) -> Option<&'static str> {
        match self {
            ImpersonationMode::AssociatedNode => Some("associated-node"),
            ImpersonationMode::ArbitraryNode => Some("arbitrary-node"),
            ImpersonationMode::ServiceAccount => Some("serviceaccount"),
            ImpersonationMode::UserInfo => Some("user-info"),
            ImpersonationMode::Legacy => None,
        }
    }

    fn verb(self) -> String {
        match self.name() {
            Some(name) => format!("impersonate:{name}"),
            None => "impersonate".to_owned(),
        }
    }

    fn constraint(self) -> String {
        if self == ImpersonationMode::Legacy {
            String::new()
        } else {
            self.verb()
        }
    }

    /// Whether the mode applies to this pair of users.
    fn is_for(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.name);
        let account = service_account(&wanted.name);
        match self {
            ImpersonationMode::AssociatedNode => {
                let mut extra = requestor.extra.iter();
                let own = extra.find(|(key, _)| key == NODE_NAME);
                let is_own = |node| matches!(own, Some((_, values)) if *values == [node]);
                only_name && node.is_some_and(is_own) && service_account(&requestor.name).is_some()
            }
            ImpersonationMode::ArbitraryNode => only_name && node.is_some(),
            ImpersonationMode::ServiceAccount => only_name && account.is_some(),
            ImpersonationMode::UserInfo => node.is_none() && account.is_none(),
            ImpersonationMode::Legacy => true,
        }
    }
}

// --- ImpersonationCheck ---

/// Asks for each part of a user whether it may be taken on.
struct ImpersonationCheck<'c> {
    authorizer: &'c Authorizer,
    requestor: &'c User,
    mode: ImpersonationMode,
    verb: &'c str,
}

impl ImpersonationCheck<'_> {
    fn is_old(&self) -> bool {
        self.mode == ImpersonationMode::Legacy
    }

    fn action<'a>(&'a self, object: ResourceAttributes<'a>) -> AuthorizationAttributes<'a> {
        AuthorizationAttributes {
            user: self.requestor,
            verb: self.verb,
            what: AuthorizationTarget::Resource(object),
        }
    }

    /// Users and groups have a home of their own in each sort of mode.
    fn object<'a>(&self, resource: &'a str, name: &'a str) -> ResourceAttributes<'a> {
        let is_shared = ["uids", "userextras"].contains(&resource);
        ResourceAttributes {
            group: if self.is_old() && !is_shared {
                ""
            } else {
                AUTHENTICATION
            },
            version: "v1",
            resource,
            name,
            ..ResourceAttributes::default()
        }
    }

    fn user(&self, wanted: &User) -> Result<User, Status> {
        let mut user = wanted.clone();
        let mut object = self.object("users", &wanted.name);
        if let Some(node) = node(&wanted.name)
            && !self.is_old()
        {
            object.resource = "nodes";
            // Which node it is was seen by the mode already.
            object.name = if self.mode == ImpersonationMode::AssociatedNode {
                "*"
            } else {
                node
            };
            user.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = service_account(&wanted.name) {
            object.resource = "serviceaccounts";
            object.namespace = namespace;
            object.name = name;
            if wanted.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        }
        self.authorizer.require(&self.action(object))?;
        Ok(user)
    }

    fn uid(&self, uid: &str) -> Result<(), Status> {
        if !uid.is_empty() {
            self.authorizer.require(&self.action(self.object("uids", uid)))?;
        }
        Ok(())
    }

    fn groups(&self, groups: &[String]) -> Result<(), Status> {
        if !self.is_old() {
            let has = |group: &str| groups.iter().any(|own| own == group);
            if has("") {
                let why = "impersonating the empty string group is not allowed";
                return Err(self.action(self.object("groups", "")).forbidden(why));
            }
            if has(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.action(self.object("groups", MASTERS)).forbidden(why));
            }
            let all = self.action(self.object("groups", "*"));
            if groups.len() >= MANY && self.authorizer.allows(&all) {
                return Ok(());
            }
        }
        for group in groups {
            self.authorizer
                .require(&self.action(self.object("groups", group)))?;
        }
        Ok(())
    }

    fn extra(&self, extra: &[(String, Vec<String>)]) -> Result<(), Status> {
        let object = |key, value| ResourceAttributes {
            subresource: key,
            ..self.object("userextras", value)
        };
        if !self.is_old() && !extra.is_empty() {
            for (key, values) in extra {
                if let Some(why) = odd_extra(key, values) {
                    return Err(self.action(object("", "")).forbidden(&why));
                }
            }
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            let all = self.action(object("*", "*"));
            if (extra.len() >= MANY || values >= MANY) && self.authorizer.allows(&all) {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorizer.require(&self.action(object(key, value)))?;
            }
        }
        Ok(())
    }
}

fn odd_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let at = Path::new("extra");
    let faults = name::validate_domain_prefixed_path(&at.child("key"), key);
    if !faults.is_empty() {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        let faults = super::rbac::aggregate(faults).unwrap_or_default();
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {faults}"
        ));
    }
    if key.to_lowercase() != key {
        let key = quote(key);
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {key}"
        ));
    }
    if values.iter().any(String::is_empty) {
        return Some("impersonating the empty string value in extra is not allowed".to_owned());
    }
    None
}

/// Parses the `Impersonate-*` headers.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = decode(key, PlusSign::Literal).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().push(text(value));
        }
    }
    let user = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra: extra.into_iter().collect(),
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        printed(&user)
    )))
}

/// A user as Go shows its insides.
fn printed(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<_> = values.iter().map(|value| quote(value)).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra = user.extra.iter();
    let extra: Vec<_> = extra
        .map(|(key, values)| format!("{}:{}", quote(key), list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid)
    )
}

/// The node that a user is.
fn node(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_PREFIX)?;
    name::validate_dns1123_subdomain(name).is_empty().then_some(name)
}

/// The namespace and name of the service account that a user is.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_valid =
        name::validate_dns1123_label(namespace).is_empty() && NameFormat::Subdomain.name(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// The groups of all service accounts in a namespace.
fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Method};
    use serde_json::{Value, json};

    use super::{
        super::testing::{TestCluster, user},
        *,
    };
    use crate::request::Query;

    /// A cluster in which alice, or who is named, has these rules.
    async fn world(who: &str, rules: Value) -> TestCluster {
        let world = TestCluster::new().await;
        let version = "rbac.authorization.k8s.io/v1";
        world
            .put(&json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}))
            .await;
        let subjects = json!([{"kind": "User", "name": who}]);
        world
            .put(
                &json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "r"},
                "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}),
            )
            .await;
        world
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (
                HeaderName::from_bytes(name.to_lowercase().as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        pairs.iter().map(pair).collect()
    }

    fn become_as(world: &TestCluster, who: User, pairs: &[(&str, &str)]) -> Result<RequestIdentity, String> {
        let info = RequestInfo::read(&Method::GET, "/api/v1/namespaces/n/pods", &Query::default());
        world
            .authorizer
            .impersonate(who, &headers(pairs), &info)
            .map_err(|status| status.message)
    }

    fn become_other(world: &TestCluster, pairs: &[(&str, &str)]) -> Result<User, String> {
        become_as(world, user("alice", &[]), pairs).map(|identity| identity.user)
    }

    fn impersonate(resources: &[&str], names: &[&str]) -> Value {
        json!({"verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"], "resources": resources, "resourceNames": names})
    }

    #[tokio::test]
    async fn no_impersonation_headers_keeps_user() {
        let world = TestCluster::new().await;
        let identity = become_as(&world, user("alice", &["g"]), &[("Accept", "*/*")]).unwrap();
        assert_eq!(
            (identity.user, identity.impersonator),
            (user("alice", &["g"]), None)
        );
    }

    #[tokio::test]
    async fn impersonation_requires_permission() {
        let world = TestCluster::new().await;
        assert_eq!(
            become_other(&world, &[("Impersonate-User", "bob")]).unwrap_err(),
            "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the \
             namespace \"n\""
        );
        assert_eq!(
            become_other(
                &world,
                &[("Impersonate-Group", "g"), ("Impersonate-Extra-A", "b")]
            )
            .unwrap_err(),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string{\"a\":[]string\
             {\"b\"}}} without impersonating a user name"
        );
    }

    #[tokio::test]
    async fn checks_user_uid_groups_and_extra() {
        let world = world(
            "alice",
            json!([
                impersonate(&["users"], &["bob"]),
                impersonate(&["groups"], &["devs"]),
                impersonate(&["uids"], &["1"]),
                impersonate(&["userextras/scopes"], &["view"])
            ]),
        )
        .await;
        let bob = ("Impersonate-User", "bob");
        let full = [
            bob,
            ("Impersonate-Group", "devs"),
            ("Impersonate-Uid", "1"),
            ("Impersonate-Extra-Scopes", "view"),
        ];
        let identity = become_as(&world, user("alice", &[]), &full).unwrap();
        assert_eq!(identity.user.groups, ["devs", "system:authenticated"]);
        assert_eq!(
            (identity.user.name.as_str(), identity.user.uid.as_str()),
            ("bob", "1")
        );
        assert_eq!(
            identity.user.extra,
            [("scopes".to_owned(), vec!["view".to_owned()])]
        );
        let impersonator = identity.impersonator.unwrap();
        assert_eq!(
            (impersonator.user.name.as_str(), impersonator.constraint.as_str()),
            ("alice", "")
        );
        // Now that the old mode has worked once, it is the one that refuses.
        for (header, value, what) in [
            (
                "Impersonate-User",
                "eve",
                "users \"eve\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\"",
            ),
            (
                "Impersonate-Group",
                "system:masters",
                "groups \"system:masters\" is forbidden: User \"alice\" cannot impersonate resource \"groups\" in API group \"\"",
            ),
            (
                "Impersonate-Uid",
                "2",
                "uids.authentication.k8s.io \"2\" is forbidden: User \"alice\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\"",
            ),
            (
                "Impersonate-Extra-Scopes",
                "edit",
                "userextras.authentication.k8s.io \"edit\" is forbidden: User \"alice\" cannot impersonate resource \"userextras/scopes\" in API group \"authentication.k8s.io\"",
            ),
        ] {
            let pairs = if header == "Impersonate-User" {
                vec![(header, value)]
            } else {
                vec![bob, (header, value)]
            };
            assert_eq!(
                become_other(&world, &pairs).unwrap_err(),
                format!("{what} at the cluster scope")
            );
        }
    }

    #[tokio::test]
    async fn impersonated_groups_follow_user() {
        let world = world(
            "alice",
            json!([impersonate(&["users", "groups", "serviceaccounts"], &[])]),
        )
        .await;
        let groups = |pairs: &[(&str, &str)]| become_other(&world, pairs).unwrap().groups;
        let account = ("Impersonate-User", "system:serviceaccount:a:x");
        assert_eq!(
            groups(&[account]),
            [
                "system:serviceaccounts",
                "system:serviceaccounts:a",
                "system:authenticated"
            ]
        );
        assert_eq!(
            groups(&[account, ("Impersonate-Group", "g")]),
            ["g", "system:authenticated"]
        );
        assert_eq!(
            groups(&[("Impersonate-User", "system:anonymous")]),
            ["system:unauthenticated"]
        );
        let unknown = ("Impersonate-Group", "system:unauthenticated");
        assert_eq!(
            groups(&[("Impersonate-User", "bob"), unknown]),
            ["system:unauthenticated"]
        );
    }

    #[tokio::test]
    async fn constrained_impersonation_checks_verb() {
        let on = |mode: &str, verb: &str| json!({"verbs": [format!("impersonate-on:{mode}:{verb}")], "apiGroups": [""], "resources": ["pods"]});
        let whom = |mode: &str, resource: &str| json!({"verbs": [format!("impersonate:{mode}")], "apiGroups": ["authentication.k8s.io"], "resources": [resource]});
        let rules = json!([
            on("user-info", "list"),
            whom("user-info", "users"),
            whom("user-info", "groups"),
            on("serviceaccount", "get"),
            whom("serviceaccount", "serviceaccounts"),
            on("arbitrary-node", "list"),
            whom("arbitrary-node", "nodes")
        ]);
        let world = world("alice", rules).await;
        let bob = ("Impersonate-User", "bob");
        let identity = become_as(&world, user("alice", &[]), &[bob]).unwrap();
        assert_eq!(identity.impersonator.unwrap().constraint, "impersonate:user-info");
        let masters = become_other(&world, &[bob, ("Impersonate-Group", "system:masters")]).unwrap_err();
        assert!(
            masters.ends_with("impersonating the system:masters group is not allowed"),
            "{masters}"
        );
        // Listing is not among what may be done as a service account.
        assert!(become_other(&world, &[("Impersonate-User", "system:serviceaccount:a:x")]).is_err());
        let node = become_other(&world, &[("Impersonate-User", "system:node:n")]).unwrap();
        assert_eq!(node.groups, ["system:nodes", "system:authenticated"]);
    }

    #[tokio::test]
    async fn service_account_impersonates_associated_node() {
        let agent = "system:serviceaccount:a:agent";
        let rules = json!([{"verbs": ["impersonate-on:associated-node:list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["impersonate:associated-node"], "apiGroups": ["authentication.k8s.io"], "resources": ["nodes"]}]);
        let world = world(agent, rules).await;
        let on = |node: &str| User {
            extra: vec![(NODE_NAME.to_owned(), vec![node.to_owned()])],
            ..user(agent, &[])
        };
        let n1 = [("Impersonate-User", "system:node:n1")];
        assert_eq!(
            become_as(&world, on("n1"), &n1).unwrap().user.name,
            "system:node:n1"
        );
        assert!(become_as(&world, on("n2"), &n1).is_err());
        assert!(become_as(&world, user(agent, &[]), &n1).is_err());
    }
}
