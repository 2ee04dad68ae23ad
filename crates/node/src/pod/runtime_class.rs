//! The runtime handler of a pod's RuntimeClass.
// upstream: pkg/kubelet/runtimeclass/runtimeclass_manager.go Manager

use k8s_openapi::api::core::v1::Pod;

use crate::sources::{ObjectSourceError, ObjectSources};

/// Why the runtime handler of a pod is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeClassError {
    #[error("runtimeclass.node.k8s.io {0:?} not found")]
    NotFound(String),
    #[error("failed to lookup RuntimeClass {0}: {1}")]
    Lookup(String, #[source] ObjectSourceError),
}

/// The runtime handler of a pod; empty for the default of the runtime. The class is read when a sandbox is created: later changes
/// do not affect running pods.
// upstream: pkg/kubelet/runtimeclass/runtimeclass_manager.go LookupRuntimeHandler
pub(super) async fn lookup_runtime_handler(
    sources: &dyn ObjectSources,
    pod: &Pod,
) -> Result<String, RuntimeClassError> {
    let name = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.runtime_class_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(String::new());
    };
    match sources.runtime_class(name).await {
        Ok(Some(class)) => Ok(class.handler.clone()),
        Ok(None) => Err(RuntimeClassError::NotFound(name.to_owned())),
        Err(error) => Err(RuntimeClassError::Lookup(name.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sources::fake::FakeObjectSources;

    #[tokio::test]
    async fn resolves_the_class_of_a_pod() {
        let sources = FakeObjectSources::default();
        let class = json!({"metadata": {"name": "sandboxed"}, "handler": "runsc"});
        sources.put_runtime_class(serde_json::from_value(class).unwrap());
        for (class, handler) in [
            (json!(null), Ok("")),
            (json!(""), Ok("")),
            (json!("sandboxed"), Ok("runsc")),
            (
                json!("absent"),
                Err("runtimeclass.node.k8s.io \"absent\" not found"),
            ),
        ] {
            let pod = json!({"spec": {"containers": [], "runtimeClassName": class}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let found = lookup_runtime_handler(&sources, &pod).await;
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, handler.map(str::to_owned).map_err(str::to_owned));
        }
    }
}
