//! What a path leads to.

use http::Method;

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'p> {
    Health,
    Pods,
    RunningPods,
    Logs(Place<'p>),
    Run(Place<'p>),
    Exec(Place<'p>),
    Attach(Place<'p>),
    /// Its container is empty.
    PortForward(Place<'p>),
    Summary,
    Metrics,
    ResourceMetrics,
    CadvisorMetrics,
    ProbeMetrics,
    Settings,
    /// There is such a path, but not with this method; with this one there is.
    OtherMethod(&'static str),
    Nowhere,
}

/// A container of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place<'p> {
    pub namespace: &'p str,
    pub pod: &'p str,
    /// Empty if it was not said.
    pub uid: &'p str,
    pub container: &'p str,
}

/// Finds out what a request is for.
pub(super) fn route<'p>(method: &Method, path: &'p str) -> Route<'p> {
    let found = find(path);
    let allowed: &[&str] = match found {
        Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) => &["GET", "POST"],
        Route::Run(_) => &["POST"],
        Route::Nowhere => return found,
        Route::Health | Route::Metrics | Route::ResourceMetrics => &["GET", "HEAD"],
        _ => &["GET"],
    };
    match allowed {
        [only, ..] if !allowed.contains(&method.as_str()) => Route::OtherMethod(only),
        _ => found,
    }
}

fn find(path: &str) -> Route<'_> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let [first, rest @ ..] = parts.as_slice() else {
        return Route::Nowhere;
    };
    let place = match (*first, rest) {
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
    if let Some((namespace, pod, uid, container)) = place {
        let place = Place {
            namespace,
            pod,
            uid,
            container,
        };
        if namespace.is_empty() || pod.is_empty() || container.is_empty() {
            return Route::Nowhere;
        }
        return match *first {
            "run" => Route::Run(place),
            "exec" => Route::Exec(place),
            "attach" => Route::Attach(place),
            "containerLogs" => Route::Logs(place),
            _ => Route::PortForward(Place {
                container: "",
                ..place
            }),
        };
    }
    match parts.as_slice() {
        ["healthz"] | ["healthz", "ping" | "log" | "syncloop"] => Route::Health,
        ["pods"] | ["pods", ""] => Route::Pods,
        ["runningpods"] | ["runningpods", ""] => Route::RunningPods,
        ["stats", "summary"] => Route::Summary,
        ["metrics"] => Route::Metrics,
        ["metrics", "resource"] => Route::ResourceMetrics,
        ["metrics", "cadvisor"] => Route::CadvisorMetrics,
        ["metrics", "probes"] => Route::ProbeMetrics,
        ["configz"] => Route::Settings,
        _ => Route::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_containers() {
        let place = Place {
            namespace: "a",
            pod: "b",
            uid: "",
            container: "c",
        };
        assert_eq!(route(&Method::GET, "/exec/a/b/c"), Route::Exec(place));
        let with_uid = Place {
            namespace: "a",
            pod: "b",
            uid: "u",
            container: "c",
        };
        assert_eq!(route(&Method::POST, "/attach/a/b/u/c"), Route::Attach(with_uid));
        let ports = Place {
            namespace: "a",
            pod: "b",
            ..Place::default()
        };
        assert_eq!(
            route(&Method::POST, "/portForward/a/b"),
            Route::PortForward(ports)
        );
        assert_eq!(route(&Method::GET, "/run/a/b/c"), Route::OtherMethod("POST"));
        assert_eq!(
            route(&Method::POST, "/containerLogs/a/b/c"),
            Route::OtherMethod("GET")
        );
    }

    #[test]
    fn other_paths_lead_nowhere() {
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
            assert_eq!(route(&Method::GET, path), Route::Nowhere, "{path}");
        }
    }
}
