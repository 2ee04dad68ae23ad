//! UID of the cluster that an agent's data directory belongs to. It labels the containers and networks of the node.
//!
//! Promises: the UID is read from the API once and stored in the data directory, so that an agent recognizes its containers while
//! the API server is unreachable. Nodes of different clusters with the same name never share containers.

use std::path::Path;

use http::Request;
use kube::Client;
use kubecontroller::{
    decode,
    object::{MetadataOnly, SlimObject},
};

use super::cluster_uid_file::{read_uid, uid_path, write_uid};
use crate::blocking::run_blocking;

/// Its UID identifies the cluster: it is never deleted.
const SYSTEM_NAMESPACE: &str = "/api/v1/namespaces/kube-system";
/// Fallback for API servers that forbid nodes to read namespaces: the Node authorizer permits reading services.
const KUBERNETES_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

/// The stored UID, else the UID from the API, which is stored.
pub(super) async fn find_uid(directory: &Path, client: &Client) -> Result<String, String> {
    let path = directory.to_owned();
    if let Some(uid) = run_blocking(move || read_uid(&path)).await {
        return Ok(uid);
    }
    let uid = match get_uid(client, SYSTEM_NAMESPACE).await {
        Err(kube::Error::Api(status)) if status.code == 403 => get_uid(client, KUBERNETES_SERVICE).await,
        result => result,
    };
    let uid = uid.map_err(|error| {
        let reason = match error {
            kube::Error::Api(status) => status.message,
            error => error.to_string(),
        };
        format!("failed to read the UID of the cluster: {reason}")
    })?;
    let path = directory.to_owned();
    let text = uid.clone();
    let written = run_blocking(move || write_uid(&path, &text)).await;
    written.map_err(|error| {
        format!(
            "failed to write the UID of the cluster to {}: {error}",
            uid_path(directory).display()
        )
    })?;
    Ok(uid)
}

async fn get_uid(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    let object: SlimObject<MetadataOnly> = decode::request(client, request).await?;
    Ok(object.metadata.uid)
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
        assert_eq!(found.as_deref(), Ok("namespace-uid"));
        let empty_api = FakeApi::new();
        assert_eq!(
            find_uid(directory.path(), &empty_api.client()).await.as_deref(),
            Ok("namespace-uid")
        );
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
        assert_eq!(found.as_deref(), Ok("service-uid"));
    }
}
