//! The paths there are, as `/` lists them.

use serde_json::{Value, json};

use super::group::Group;

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

/// The list: what is fixed, groups and versions, and `others` that somebody else knows.
pub(super) fn index(groups: &[Group], others: &[&str]) -> Value {
    let mut paths: Vec<String> = FIXED.iter().chain(others).map(|&path| path.to_owned()).collect();
    for group in groups {
        let place = place(group);
        for version in &group.versions {
            paths.push(format!("{place}/{}", version.name));
        }
        paths.push(place);
    }
    paths.push("/version".to_owned());
    paths.sort_unstable();
    paths.dedup();
    json!({"paths": paths})
}

fn place(group: &Group) -> String {
    if group.name.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", group.name)
    }
}
