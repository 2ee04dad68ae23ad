//! The list of paths at `/`.

use serde_json::{Value, json};

use super::group::DiscoveryGroup;

/// Paths that are there whatever is served.
const FIXED: [&str; 8] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
];

/// The list: fixed paths, groups and versions, and `others`.
// upstream: staging/src/k8s.io/apiserver/pkg/server/routes/index.go ServeHTTP
pub(super) fn index(groups: &[DiscoveryGroup], others: &[&str]) -> Value {
    let mut paths: Vec<String> = FIXED.iter().chain(others).map(|&path| path.to_owned()).collect();
    for group in groups {
        let group_path = group_path(group);
        for version in &group.versions {
            paths.push(format!("{group_path}/{}", version.name));
        }
        paths.push(group_path);
    }
    paths.push("/version".to_owned());
    paths.sort_unstable();
    paths.dedup();
    json!({"paths": paths})
}

fn group_path(group: &DiscoveryGroup) -> String {
    if group.name.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", group.name)
    }
}
