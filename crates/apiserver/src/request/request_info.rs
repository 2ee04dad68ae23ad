//! `RequestInfo`: the attributes of a request for authorization, read from method, path and query alone, whether the resource
//! exists or not.

use http::Method;
use k3_api::{
    name,
    selector::field::{Selector, Term},
    strategy::User,
};

use super::{
    Query, Target,
    query::{PlusSign, decode},
};
use crate::authz::{AuthorizationAttributes, AuthorizationTarget, ResourceAttributes};

/// What a request wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The verb as roles have it; for a path that is no resource, the method.
    pub verb: String,
    /// The whole path.
    pub path: String,
    /// Whether it is about a resource. If not, what follows is empty.
    pub is_resource: bool,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    fields: Vec<Term>,
}

// --- RequestInfo ---

impl RequestInfo {
    /// Reads a request.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go NewRequestInfo
    pub(crate) fn read(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = RequestInfo {
            verb: method.as_str().to_lowercase(),
            path: decode(path, PlusSign::Literal).unwrap_or_else(|| path.to_owned()),
            ..RequestInfo::default()
        };
        // Decoded part by part, as the router does: what is authorized is what is done.
        let parts = path.trim_matches('/').split('/');
        let parts: Option<Vec<String>> = parts.map(|part| decode(part, PlusSign::Literal)).collect();
        let Some(parts) = parts else {
            return info;
        };
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let (group, version, parts) = match parts.as_slice() {
            ["api", version, parts @ ..] if !parts.is_empty() => ("", version, parts),
            ["apis", group, version, parts @ ..] if !parts.is_empty() => (*group, version, parts),
            _ => return info,
        };
        info.is_resource = true;
        group.clone_into(&mut info.group);
        (*version).clone_into(&mut info.version);
        info.read_resource(method, parts, query);
        info
    }

    fn read_resource(&mut self, method: &Method, parts: &[&str], query: &Query) {
        let (is_by_path, mut parts) = if let [special @ ("watch" | "proxy"), rest @ ..] = parts {
            (*special).clone_into(&mut self.verb);
            (true, rest)
        } else {
            let verb = match method.as_str() {
                "POST" => "create",
                "GET" | "HEAD" => "get",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "",
            };
            verb.clone_into(&mut self.verb);
            (false, parts)
        };
        if let ["namespaces", namespace, rest @ ..] = parts {
            (*namespace).clone_into(&mut self.namespace);
            if !matches!(rest, [] | ["status" | "finalize", ..]) {
                parts = rest;
            }
        }
        let part = |at: usize| (*parts.get(at).unwrap_or(&"")).to_owned();
        self.resource = part(0);
        self.name = part(1);
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
        // One that cannot be parsed narrows nothing: the request needs permission for all objects, and is refused by the handler.
        let selector = Selector::parse(query.text("fieldSelector")).unwrap_or_default();
        if self.name.is_empty() && self.verb == "get" {
            let watches = query.flag("watch").unwrap_or_default();
            if watches { "watch" } else { "list" }.clone_into(&mut self.verb);
            if let Some(name) = selector.exact("metadata.name")
                && name::validate_path_segment_name(name).is_empty()
            {
                name.clone_into(&mut self.name);
            }
        }
        if self.name.is_empty() && self.verb == "delete" {
            "deletecollection".clone_into(&mut self.verb);
        }
        if !is_by_path && ["list", "watch", "deletecollection"].contains(&self.verb.as_str()) {
            self.fields = selector.terms().to_vec();
        }
    }

    /// It as an action of a user, with this verb.
    pub(crate) fn action_with<'i>(&'i self, user: &'i User, verb: &'i str) -> AuthorizationAttributes<'i> {
        let what = if self.is_resource {
            AuthorizationTarget::Resource(ResourceAttributes {
                group: &self.group,
                version: &self.version,
                resource: &self.resource,
                subresource: &self.subresource,
                namespace: &self.namespace,
                name: &self.name,
                fields: &self.fields,
            })
        } else {
            AuthorizationTarget::Path(&self.path)
        };
        AuthorizationAttributes { user, verb, what }
    }

    /// It as an action of a user.
    pub(crate) fn action<'i>(&'i self, user: &'i User) -> AuthorizationAttributes<'i> {
        self.action_with(user, &self.verb)
    }

    /// Whether it means what the router found. Anything else must not be answered: it is not what was allowed.
    pub(crate) fn means(&self, target: &Target, verb: &str) -> bool {
        let is_namespace = self.group.is_empty() && self.resource == "namespaces";
        let is_list = target.name.is_empty() && ["list", "watch"].contains(&verb);
        self.verb == verb
            && *self.group == *target.kind.group
            && *self.version == *target.kind.version
            && *self.resource == *target.kind.plural
            && self.subresource == target.part()
            && (is_namespace || self.namespace == target.namespace)
            && (is_list || self.name == target.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, path: &str) -> RequestInfo {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::read(&method, path, &Query::parse(query))
    }

    /// Verb, resource with its part, namespace and name.
    fn is(method: &str, path: &str, [verb, resource, namespace, name]: [&str; 4]) {
        let info = read(method, path);
        let mut found = info.resource.clone();
        if !info.subresource.is_empty() {
            found = format!("{found}/{}", info.subresource);
        }
        let found = [&info.verb, &found, &info.namespace, &info.name];
        assert_eq!(found, [verb, resource, namespace, name], "{method} {path}");
        assert!(info.is_resource, "{path}");
    }

    #[test]
    fn parses_verb_and_resource() {
        is("GET", "/api/v1/namespaces/a/pods", ["list", "pods", "a", ""]);
        is("GET", "/api/v1/pods?watch=1", ["watch", "pods", "", ""]);
        is("HEAD", "/api/v1/namespaces/a/pods/b", ["get", "pods", "a", "b"]);
        is(
            "POST",
            "/api/v1/namespaces/a/pods/b/exec",
            ["create", "pods/exec", "a", "b"],
        );
        is(
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            ["update", "deployments/scale", "a", "b"],
        );
        is(
            "DELETE",
            "/apis/x.io/v1/widgets",
            ["deletecollection", "widgets", "", ""],
        );
        is("DELETE", "/api/v1/nodes/b", ["delete", "nodes", "", "b"]);
        is("OPTIONS", "/api/v1/nodes/b", ["", "nodes", "", "b"]);
        is(
            "GET",
            "/api/v1/namespaces/a/services/b/proxy/x/y",
            ["get", "services/proxy", "a", "b"],
        );
    }

    #[test]
    fn namespace_request_has_its_own_namespace() {
        is("GET", "/api/v1/namespaces/a", ["get", "namespaces", "a", "a"]);
        is(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            ["update", "namespaces/finalize", "a", "a"],
        );
        is("GET", "/api/v1/namespaces", ["list", "namespaces", "", ""]);
    }

    #[test]
    fn legacy_watch_path_is_watch_verb() {
        is(
            "GET",
            "/api/v1/watch/namespaces/a/pods",
            ["watch", "pods", "a", ""],
        );
        is(
            "POST",
            "/api/v1/watch/namespaces/a/pods",
            ["watch", "pods", "a", ""],
        );
        assert!(
            read("GET", "/api/v1/watch/pods?fieldSelector=a=b")
                .fields
                .is_empty()
        );
    }

    #[test]
    fn metadata_name_selector_sets_name() {
        is(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name=x",
            ["list", "pods", "", "x"],
        );
        is(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name!=x",
            ["list", "pods", "", ""],
        );
        is(
            "DELETE",
            "/api/v1/pods?fieldSelector=metadata.name=x",
            ["deletecollection", "pods", "", ""],
        );
        assert_eq!(
            read("GET", "/api/v1/pods?fieldSelector=spec.nodeName=n").fields[0].value,
            "n"
        );
    }

    #[test]
    fn non_resource_paths() {
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "/healthz",
            "/apix/v1/pods",
        ] {
            let info = read("GET", path);
            assert!(
                !info.is_resource && info.path == path && info.verb == "get",
                "{info:?}"
            );
        }
        assert_eq!(read("POST", "/a%20b").path, "/a b");
    }
}
