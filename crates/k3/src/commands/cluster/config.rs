//! The configuration file of a node, written with comments for its editor.

use std::fmt::Write;

use k3_storage::backend::{StorageBackend, find_backend};
use serde_json::json;

use super::{
    create::CreateFlags,
    directory::{ClusterDirectory, NodeRole},
};

/// The text of the file of a node.
pub(super) fn text(directory: &ClusterDirectory, number: usize, flags: &CreateFlags) -> String {
    let cluster = &directory.cluster;
    let node = &cluster.nodes[number - 1];
    let id = &cluster.id;
    // JSON strings are YAML strings.
    let path = |path: std::path::PathBuf| json!(path.display().to_string());
    let offset = u16::try_from(number - 1).expect("a cluster has at most a hundred nodes");
    let mut text = format!(
        "# Node {number} of the cluster {id}, created by `k3 cluster create`. Changes take effect at its next start.\n\
         role: {role}\n\
         data_dir: {data}\n\
         log:\n  path: {log}\n\
         web:\n  port: {web}\n\
         node:\n  name: {name}\n  port: {port}\n",
        role = node.role.name(),
        data = path(directory.data(number)),
        log = path(directory.log(number)),
        web = flags.web_port + offset,
        name = node.name,
        port = node.port,
    );
    // Writing to a string does not fail.
    if let Some(runtime) = &flags.runtime.runtime {
        let _ = writeln!(text, "  runtime: {runtime}");
    }
    if let Some(endpoint) = &flags.runtime.runtime_endpoint {
        let _ = writeln!(text, "  runtime_endpoint: {}", json!(endpoint));
    }
    match node.role {
        NodeRole::Node => {
            let _ = writeln!(text, "kubeconfig: {}", path(directory.kubeconfig()));
        }
        NodeRole::One => {
            let _ = write!(
                text,
                "api:\n  port: {}\nstorage:\n  type: {}\n{}",
                flags.api_port,
                cluster.storage,
                store(&cluster.storage, id, flags.database_port)
            );
        }
    }
    text
}

/// Settings that separate the databases of clusters.
fn store(storage: &str, id: &str, port: Option<u16>) -> String {
    let Some(database) = find_backend(storage).and_then(StorageBackend::database) else {
        return String::new();
    };
    let mut text = format!("  {storage}:\n");
    for (key, value) in database.cluster_settings(id, port.unwrap_or(database.default_port())) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {key}: {value}");
    }
    let _ = writeln!(text, "database:\n  instance: {id}");
    text
}
