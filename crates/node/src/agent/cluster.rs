//! Which cluster the node is of, for what it makes outside of its directory.
//!
//! Promises: a directory of an agent is of one cluster, found out once and kept in it, so that an agent whose API is away knows
//! its containers; another directory is never taken for this one's cluster because its node has the same name.

use std::{io, path::Path};

use http::Request;
use kube::Client;
use kubecontroller::{
    decode,
    object::{MetadataOnly, SlimObject},
};

use crate::runtime::{AdoptedPods, Owner};

/// The uid of the cluster, in the directory of the agent.
const UID_FILE: &str = "cluster-uid";
/// The directories of pods, in the directory of the agent.
const PODS: &str = "pods";

/// What has a uid for as long as there is the cluster.
const SYSTEM_NAMESPACE: &str = "/api/v1/namespaces/kube-system";
/// What servers that refuse nodes to read that let them read.
const SYSTEM_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

/// The owner of the containers of an agent that is not running, by its directory and the name of its node.
pub fn owner_of_directory(directory: &Path, node: &str) -> Owner {
    Owner {
        node: node.to_owned(),
        cluster: read_uid(directory).unwrap_or_default(),
        adopted: adopted_pods(directory),
    }
}

/// The pods of which the agent has directories: containers of theirs that carry no cluster are its own.
pub(super) fn adopted_pods(directory: &Path) -> AdoptedPods {
    let adopted = AdoptedPods::default();
    let pods = std::fs::read_dir(directory.join(PODS))
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

/// The uid of the cluster that a directory of an agent belongs to, if that was found out.
fn read_uid(directory: &Path) -> Option<String> {
    let uid = std::fs::read_to_string(directory.join(UID_FILE)).ok()?;
    let uid = uid.trim();
    (!uid.is_empty()).then(|| uid.to_owned())
}

/// The uid of the cluster: the one of the directory, or that of the API, which is kept then.
pub(super) async fn find_uid(directory: &Path, client: &Client) -> Result<String, String> {
    if let Some(uid) = read_uid(directory) {
        return Ok(uid);
    }
    let uid = match ask(client, SYSTEM_NAMESPACE).await {
        Err(kube::Error::Api(status)) if status.code == 403 => ask(client, SYSTEM_SERVICE).await,
        asked => asked,
    };
    let uid = uid.map_err(|error| {
        let why = match error {
            kube::Error::Api(status) => status.message,
            error => error.to_string(),
        };
        format!("the uid of the cluster is not known yet: {why}")
    })?;
    write(directory, &uid).map_err(|error| {
        format!(
            "cannot write the uid of the cluster to {}: {error}",
            directory.join(UID_FILE).display()
        )
    })?;
    Ok(uid)
}

async fn ask(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    let object: SlimObject<MetadataOnly> = decode::request(client, request).await?;
    Ok(object.metadata.uid)
}

/// Whole, or not at all.
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
        let namespace = json!({"metadata": {"name": "kube-system", "uid": "of-the-namespace"}});
        api.put::<Namespace>(&serde_json::from_value(namespace).unwrap());
        let service =
            json!({"metadata": {"name": "kubernetes", "namespace": "default", "uid": "of-the-service"}});
        api.put::<Service>(&serde_json::from_value(service).unwrap());
        api
    }

    #[tokio::test]
    async fn the_uid_is_found_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let found = find_uid(folder.path(), &api().client()).await;
        assert_eq!(found.as_deref(), Ok("of-the-namespace"));
        let away = FakeApi::new();
        assert_eq!(
            find_uid(folder.path(), &away.client()).await.as_deref(),
            Ok("of-the-namespace")
        );
        let other = tempfile::tempdir().unwrap();
        assert!(find_uid(other.path(), &away.client()).await.is_err());
    }

    #[test]
    fn pods_with_a_directory_are_adopted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("pods/uid-1")).unwrap();
        write(folder.path(), "the-cluster").unwrap();
        let owner = owner_of_directory(folder.path(), "n");
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
    async fn a_server_that_refuses_the_namespace_shows_its_service() {
        let folder = tempfile::tempdir().unwrap();
        let api = api();
        api.faults()
            .on(RequestMatcher::all().times(1), Fault::Status(403));
        let found = find_uid(folder.path(), &api.client()).await;
        assert_eq!(found.as_deref(), Ok("of-the-service"));
    }
}
