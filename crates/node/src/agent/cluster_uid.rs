//! UID of the cluster that an agent's data directory belongs to. It labels the containers and networks of the node.
//!
//! Promises: the UID is read from the API once and stored in the data directory, so that an agent recognizes its containers while
//! the API server is unreachable. Nodes of different clusters with the same name never share containers.

use std::{
    io,
    path::{Path, PathBuf},
};

use http::Request;
use kube::Client;
use kubecontroller::{
    decode,
    object::{MetadataOnly, SlimObject},
    writer::error_message,
};

use super::cluster_uid_file::{read_uid, uid_path, write_uid};
use crate::blocking::run_blocking;

/// Its UID identifies the cluster: it is never deleted.
const SYSTEM_NAMESPACE: &str = "/api/v1/namespaces/kube-system";
/// Fallback for API servers that forbid nodes to read namespaces: the Node authorizer permits reading services.
const KUBERNETES_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

/// Why the UID of the cluster is unknown. The message is part of the Ready condition.
#[derive(Debug, thiserror::Error)]
pub(super) enum FindUidError {
    /// The stored UID cannot be read. It is not replaced: the containers of this node have it.
    #[error("failed to read the UID of the cluster from {}: {source}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    /// The request to the API server failed.
    #[error("failed to read the UID of the cluster: {}", error_message(.0))]
    Request(#[source] kube::Error),
    /// The object has no UID. Containers of other clusters without a UID would be taken for those of this one.
    #[error("failed to read the UID of the cluster: {0} has none")]
    NoUid(&'static str),
    /// The UID cannot be stored.
    #[error("failed to write the UID of the cluster to {}: {source}", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
}

/// The stored UID, else the UID from the API, which is stored.
pub(super) async fn find_uid(directory: &Path, client: &Client) -> Result<String, FindUidError> {
    let path = directory.to_owned();
    let stored = run_blocking(move || read_uid(&path)).await;
    let stored = stored.map_err(|source| FindUidError::ReadFile {
        path: uid_path(directory),
        source,
    })?;
    if let Some(uid) = stored {
        return Ok(uid);
    }
    let uid = match get_uid(client, SYSTEM_NAMESPACE).await {
        Err(FindUidError::Request(kube::Error::Api(status))) if status.code == 403 => {
            get_uid(client, KUBERNETES_SERVICE).await?
        }
        result => result?,
    };
    let path = directory.to_owned();
    let text = uid.clone();
    let written = run_blocking(move || write_uid(&path, &text)).await;
    written.map_err(|source| FindUidError::WriteFile {
        path: uid_path(directory),
        source,
    })?;
    Ok(uid)
}

async fn get_uid(client: &Client, path: &'static str) -> Result<String, FindUidError> {
    let read = async {
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        decode::request::<SlimObject<MetadataOnly>>(client, request).await
    };
    let object = read.await.map_err(FindUidError::Request)?;
    validate_uid(object.metadata.uid.into(), path)
}

fn validate_uid(uid: String, path: &'static str) -> Result<String, FindUidError> {
    if uid.is_empty() {
        return Err(FindUidError::NoUid(path));
    }
    Ok(uid)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Service};
    use kubecontroller::testing::{FakeApi, Fault, RequestMatcher};
    use serde_json::json;

    use super::*;

    fn api() -> FakeApi {
        let api = FakeApi::new();
        let namespace = json!({"metadata": {"name": "kube-system", "uid": "namespace-uid"}});
        api.put::<Namespace>(&serde_json::from_value(namespace).unwrap());
        let service =
            json!({"metadata": {"name": "kubernetes", "namespace": "default", "uid": "service-uid"}});
        api.put::<Service>(&serde_json::from_value(service).unwrap());
        api
    }

    #[tokio::test]
    async fn stores_uid_after_first_read() {
        let directory = tempfile::tempdir().unwrap();
        let found = find_uid(directory.path(), &api().client()).await;
        assert_eq!(found.unwrap(), "namespace-uid");
        let empty_api = FakeApi::new();
        let stored = find_uid(directory.path(), &empty_api.client()).await;
        assert_eq!(stored.unwrap(), "namespace-uid");
        let other = tempfile::tempdir().unwrap();
        assert!(find_uid(other.path(), &empty_api.client()).await.is_err());
    }

    #[tokio::test]
    async fn reads_service_if_namespace_is_forbidden() {
        let directory = tempfile::tempdir().unwrap();
        let api = api();
        api.faults()
            .on(RequestMatcher::all().times(1), Fault::Status(403));
        let found = find_uid(directory.path(), &api.client()).await;
        assert_eq!(found.unwrap(), "service-uid");
    }

    #[tokio::test]
    async fn an_unreadable_uid_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(uid_path(directory.path())).unwrap();
        let found = find_uid(directory.path(), &api().client()).await;
        assert!(matches!(found, Err(FindUidError::ReadFile { .. })), "{found:?}");
    }

    #[test]
    fn rejects_a_cluster_without_uid() {
        assert_eq!(validate_uid("u".to_owned(), SYSTEM_NAMESPACE).unwrap(), "u");
        let found = validate_uid(String::new(), SYSTEM_NAMESPACE);
        assert!(matches!(found, Err(FindUidError::NoUid(_))), "{found:?}");
    }
}
