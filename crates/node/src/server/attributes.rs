//! What a request is, as authorization sees it: always about this node, and some part of it.

use http::Method;

/// The verb of a method; empty for one that has none.
pub(super) fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The parts of a node that a path is about. Who may reach one of them may reach the path.
pub(super) fn subresources(path: &str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let is_under = |roots: &[&str]| roots.iter().any(|root| is_subpath(path, root));
    if is_under(&["/pods", "/allocatedPods", "/runningpods"]) {
        parts.push("pods");
    } else if is_under(&["/healthz"]) {
        parts.push("healthz");
    } else if is_under(&["/configz"]) {
        parts.push("configz");
    }
    parts.push(if is_under(&["/stats"]) {
        "stats"
    } else if is_under(&["/metrics"]) {
        "metrics"
    } else if is_under(&["/logs"]) {
        "log"
    } else if is_under(&["/checkpoint"]) {
        "checkpoint"
    } else if is_under(&["/statusz"]) {
        "statusz"
    } else if is_under(&["/flagz"]) {
        "configz"
    } else {
        "proxy"
    });
    parts
}

fn is_subpath(path: &str, root: &str) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_about_parts_of_the_node() {
        for (path, parts) in [
            ("/stats/summary", &["stats"][..]),
            ("/metrics", &["metrics"]),
            ("/metrics/resource", &["metrics"]),
            ("/metricsx", &["proxy"]),
            ("/logs/", &["log"]),
            ("/pods", &["pods", "proxy"]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/checkpoint/a/b/c", &["checkpoint"]),
            ("/exec/a/b/c", &["proxy"]),
            ("/containerLogs/a/b/c", &["proxy"]),
            ("/", &["proxy"]),
        ] {
            assert_eq!(subresources(path), parts, "{path}");
        }
        assert_eq!(verb(&Method::POST), "create");
        assert_eq!(verb(&Method::OPTIONS), "");
    }
}
