//! The projected volume of a pod with token, root CA certificate and namespace.

use k3_api::{
    name,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use crate::registry::random_number;

/// Where programs look for it.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the name of the volume begins with.
const NAME: &str = "kube-api-access-";
/// An hour and seven seconds. The odd number identifies tokens mounted by default, whose expiration is extended.
const EXPIRATION_SECONDS: i64 = 3607;

/// Mounts the volume in each container that has nothing at its place. A volume that is there under its name is used.
// upstream: plugin/pkg/admission/serviceaccount/admission.go mountServiceAccountToken, TokenVolumeSource
pub(super) fn mount(spec: &mut Value) {
    let mut names = spec.items("volumes").iter().map(|volume| volume.text("name"));
    let there = names.find(|name| name.starts_with(NAME)).map(str::to_owned);
    let is_there = there.is_some();
    let name = there.unwrap_or_else(|| name::generate(NAME, random_number));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let mounts = container.items("volumeMounts");
            if mounts.iter().any(|mount| mount.text("mountPath") == MOUNT_PATH) {
                continue;
            }
            let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
            push(container, "volumeMounts", mount);
            is_needed = true;
        }
    }
    if is_needed && !is_there {
        push(spec, "volumes", volume(&name));
    }
}

/// Whether a volume brings a token.
pub(super) fn is_projected(spec: &Value) -> bool {
    let mut sources = spec
        .items("volumes")
        .iter()
        .flat_map(|volume| volume.at("projected").items("sources"));
    sources.any(|source| source.has("serviceAccountToken"))
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": EXPIRATION_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
            "defaultMode": 0o644,
        },
    })
}

fn push(tree: &mut Value, list: &str, item: Value) {
    tree.set_default(list, json!([]));
    if let Some(Value::Array(items)) = tree.at_mut(list) {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_token_where_path_is_free() {
        let own = json!([{"name": "own", "mountPath": MOUNT_PATH}]);
        let mut spec = json!({
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": own}],
            "volumes": [{"name": "own", "emptyDir": {}}],
        });
        mount(&mut spec);
        let name = spec.items("volumes")[1].text("name").to_owned();
        assert!(name.starts_with(NAME) && name.len() == NAME.len() + 5, "{name}");
        let mounted = json!([{"name": name, "readOnly": true, "mountPath": MOUNT_PATH}]);
        assert_eq!(spec.items("initContainers")[0].at("volumeMounts"), &mounted);
        assert_eq!(spec.items("containers")[0].at("volumeMounts"), &mounted);
        assert_eq!(spec.items("containers")[1].at("volumeMounts"), &own);
        assert!(is_projected(&spec));
    }

    #[test]
    fn adds_no_unused_volume() {
        let mut covered =
            json!({"containers": [{"volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]});
        let before = covered.clone();
        mount(&mut covered);
        assert_eq!(covered, before);
        let mut prepared =
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-own"}]});
        mount(&mut prepared);
        assert_eq!(prepared.items("volumes").len(), 1);
        let mounts = prepared.items("containers")[0].items("volumeMounts");
        assert_eq!(mounts[0].text("name"), "kube-api-access-own");
    }
}
