//! Authorization attributes of a request: a verb and a subresource of the node.
// upstream: pkg/kubelet/server/auth.go GetRequestAttributes

use http::Method;

/// The verb of a method; empty for other methods.
pub(super) fn request_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Subresources of the node for a path. Access to one of them permits the request.
pub(super) fn node_subresources(path: &str) -> Vec<&'static str> {
    let mut subresources = Vec::new();
    let is_under = |roots: &[&str]| roots.iter().any(|root| is_subpath(path, root));
    if is_under(&["/pods", "/allocatedPods", "/runningpods"]) {
        subresources.push("pods");
    } else if is_under(&["/healthz"]) {
        subresources.push("healthz");
    } else if is_under(&["/configz"]) {
        subresources.push("configz");
    }
    subresources.push(if is_under(&["/stats"]) {
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
    subresources
}

fn is_subpath(path: &str, root: &str) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_paths_to_subresources() {
        for (path, subresources) in [
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
            assert_eq!(node_subresources(path), subresources, "{path}");
        }
        assert_eq!(request_verb(&Method::POST), "create");
        assert_eq!(request_verb(&Method::OPTIONS), "");
    }
}
