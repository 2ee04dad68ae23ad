//! URL paths of the kubelet API.
// upstream: pkg/kubelet/server/server.go InstallAuthRequiredHandlers, InstallAuthNotRequiredHandlers

use http::Method;

/// The endpoint of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'p> {
    Health,
    Pods,
    RunningPods,
    Logs(ContainerPath<'p>),
    Run(ContainerPath<'p>),
    Exec(ContainerPath<'p>),
    Attach(ContainerPath<'p>),
    /// The container name is empty.
    PortForward(ContainerPath<'p>),
    Summary,
    Metrics,
    ResourceMetrics,
    CadvisorMetrics,
    ProbeMetrics,
    Configz,
    /// The path exists with another method, which is given.
    MethodNotAllowed(&'static str),
    NotFound,
}

/// Path of a container: namespace, pod, optional UID, container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerPath<'p> {
    pub namespace: &'p str,
    pub pod: &'p str,
    /// Empty if not given.
    pub uid: &'p str,
    pub container: &'p str,
}

/// Parses method and path of a request.
pub(super) fn route<'p>(method: &Method, path: &'p str) -> Route<'p> {
    let route = parse_path(path);
    let allowed: &[&str] = match route {
        Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) => &["GET", "POST"],
        Route::Run(_) => &["POST"],
        Route::NotFound => return route,
        Route::Health | Route::Metrics | Route::ResourceMetrics => &["GET", "HEAD"],
        _ => &["GET"],
    };
    match allowed {
        [only, ..] if !allowed.contains(&method.as_str()) => Route::MethodNotAllowed(only),
        _ => route,
    }
}

fn parse_path(path: &str) -> Route<'_> {
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let [first, rest @ ..] = segments.as_slice() else {
        return Route::NotFound;
    };
    let container_path = match (*first, rest) {
        ("run" | "exec" | "attach" | "containerLogs", [namespace, pod, container]) => {
            Some((*namespace, *pod, "", *container))
        }
        ("run" | "exec" | "attach", [namespace, pod, uid, container]) => {
            Some((*namespace, *pod, *uid, *container))
        }
        ("portForward", [namespace, pod]) => Some((*namespace, *pod, "", "-")),
        ("portForward", [namespace, pod, uid]) => Some((*namespace, *pod, *uid, "-")),
        _ => None,
    };
    if let Some((namespace, pod, uid, container)) = container_path {
        let container_path = ContainerPath {
            namespace,
            pod,
            uid,
            container,
        };
        if namespace.is_empty() || pod.is_empty() || container.is_empty() {
            return Route::NotFound;
        }
        return match *first {
            "run" => Route::Run(container_path),
            "exec" => Route::Exec(container_path),
            "attach" => Route::Attach(container_path),
            "containerLogs" => Route::Logs(container_path),
            _ => Route::PortForward(ContainerPath {
                container: "",
                ..container_path
            }),
        };
    }
    match segments.as_slice() {
        ["healthz"] | ["healthz", "ping" | "log" | "syncloop"] => Route::Health,
        ["pods"] | ["pods", ""] => Route::Pods,
        ["runningpods"] | ["runningpods", ""] => Route::RunningPods,
        ["stats", "summary"] => Route::Summary,
        ["metrics"] => Route::Metrics,
        ["metrics", "resource"] => Route::ResourceMetrics,
        ["metrics", "cadvisor"] => Route::CadvisorMetrics,
        ["metrics", "probes"] => Route::ProbeMetrics,
        ["configz"] => Route::Configz,
        _ => Route::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_container_paths() {
        let container_path = ContainerPath {
            namespace: "a",
            pod: "b",
            uid: "",
            container: "c",
        };
        assert_eq!(route(&Method::GET, "/exec/a/b/c"), Route::Exec(container_path));
        let with_uid = ContainerPath {
            namespace: "a",
            pod: "b",
            uid: "u",
            container: "c",
        };
        assert_eq!(route(&Method::POST, "/attach/a/b/u/c"), Route::Attach(with_uid));
        let ports = ContainerPath {
            namespace: "a",
            pod: "b",
            ..ContainerPath::default()
        };
        assert_eq!(
            route(&Method::POST, "/portForward/a/b"),
            Route::PortForward(ports)
        );
        assert_eq!(route(&Method::GET, "/run/a/b/c"), Route::MethodNotAllowed("POST"));
        assert_eq!(
            route(&Method::POST, "/containerLogs/a/b/c"),
            Route::MethodNotAllowed("GET")
        );
    }

    #[test]
    fn rejects_other_paths() {
        for path in [
            "",
            "/",
            "/exec",
            "/exec/a/b",
            "/exec/a/b/",
            "/exec//b/c",
            "/exec/a/b/u/c/d",
            "/containerLogs/a/b/u/c",
            "/logs/",
            "/logs/syslog",
            "/healthz/other",
            "/stats",
        ] {
            assert_eq!(route(&Method::GET, path), Route::NotFound, "{path}");
        }
    }
}
