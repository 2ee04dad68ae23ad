//! Services and pods of tests.

use serde_json::{Value, json};

/// A service whose pods have its name as their app.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"team": "a"}},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": name},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]},
    })
}

/// A pod that is ready.
pub(crate) fn pod(name: &str, app: &str, ip: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
    })
}
