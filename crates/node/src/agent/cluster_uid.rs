//! UID of the cluster that an agent's data directory belongs to. It labels the containers and networks of the node.
//!
//! Promises: the UID is read from the API once and stored in the data directory, so that an agent recognizes its containers while
//! the API server is unreachable. Nodes of different clusters with the same name never share containers.

use std::{io, path::Path};

use http::Request;
use kube::Client;
use kubecontroller::{
    decode,
    object::{MetadataOnly, SlimObject},
};

use crate::runtime::{AdoptedPods, ContainerOwner};

/// File in the data directory of the agent.
const UID_FILE: &str = "cluster-uid";
/// Parent of the pod directories, in the data directory of the agent.
const PODS_DIRECTORY: &str = "pods";

/// Its UID identifies the cluster: it is never deleted.
const SYSTEM_NAMESPACE: &str = "/api/v1/namespaces/kube-system";
/// Fallback for API servers that forbid nodes to read namespaces: the Node authorizer permits reading services.
const KUBERNETES_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

/// The owner of the containers of an agent that does not run, from its data directory and node name.
pub fn owner_of_directory(directory: &Path, node: &str) -> ContainerOwner {
    ContainerOwner {
        node: node.to_owned(),
        cluster: read_uid(directory).unwrap_or_default(),
        adopted: adopted_pods(directory),
    }
}

/// The pods with a directory in the data directory. Their containers belong to the agent even without a cluster label.
pub(super) fn adopted_pods(directory: &Path) -> AdoptedPods {
    let adopted = AdoptedPods::default();
    let pods = std::fs::read_dir(directory.join(PODS_DIRECTORY))
        .into_iter()
        .flatten()
        .flatten();
    for pod in pods {
        if let Some(uid) = pod.file_name().to_str() {
            adopted.add(uid);
        }
    }
    adopted
}

/// The stored UID.
fn read_uid(directory: &Path) -> Option<String> {
    let uid = std::fs::read_to_string(directory.join(UID_FILE)).ok()?;
    let uid = uid.trim();
    (!uid.is_empty()).then(|| uid.to_owned())
}

/// The stored UID, else the UID from the API, which is stored.
pub(super) async fn find_uid(directory: &Path, client: &Client) -> Result<String, String> {
    if let Some(uid) = read_uid(directory) {
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
    write(directory, &uid).map_err(|error| {
        format!(
            "failed to write the UID of the cluster to {}: {error}",
            directory.join(UID_FILE).display()
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

/// Writes atomically: a crash leaves no partial UID.
fn write(directory: &Path, uid: &str) -> io::Result<()> {
    let partial = directory.join(format!("{UID_FILE}.partial"));
    std::fs::write(&partial, format!("{uid}\n"))?;
    std::fs::rename(&partial, directory.join(UID_FILE))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Service};
    use kubecontroller::testing::{FakeApi, Fault, RequestMatcher};
    use serde_json::json;

    use super::*;
    use crate::runtime::labels;

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

    #[test]
    fn adopts_pods_with_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("pods/uid-1")).unwrap();
        write(directory.path(), "the-cluster").unwrap();
        let owner = owner_of_directory(directory.path(), "n");
        assert_eq!(
            (owner.node.as_str(), owner.cluster.as_str()),
            ("n", "the-cluster")
        );
        let owns = |uid: &str| {
            let uid = uid.to_owned();
            let node = "n".to_owned();
            owner.owns(|name| match name {
                labels::NODE => Some(&node),
                labels::POD_UID => Some(&uid),
                _ => None,
            })
        };
        assert!(owns("uid-1") && !owns("uid-2"));
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
