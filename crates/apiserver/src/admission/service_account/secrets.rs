//! Restricts the Secrets of a pod to those that its ServiceAccount mentions.

use std::collections::HashSet;

use k3_api::strategy::Tree;
use serde_json::Value;

/// The lists of containers, and what one of them is called.
const CONTAINERS: [(&str, &str); 3] = [
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
];

/// Where sources of volumes name a secret; those of a projected one stand in a list.
const VOLUME_SECRETS: [&str; 10] = [
    "azureFile.secretName",
    "cephfs.secretRef.name",
    "cinder.secretRef.name",
    "flexVolume.secretRef.name",
    "rbd.secretRef.name",
    "secret.secretName",
    "scaleIO.secretRef.name",
    "iscsi.secretRef.name",
    "storageos.secretRef.name",
    "csi.nodePublishSecretRef.name",
];

/// Why an account does not let a pod use a secret it refers to.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretReferenceError {
    #[error(
        "volume with secret.secretName=\"{secret}\" is not allowed because service account {account} does not reference that \
         secret"
    )]
    Volume { secret: String, account: String },
    #[error(
        "{container} with {location} referencing secret.secretName=\"{secret}\" is not allowed because service account \
         {account} does not reference that secret"
    )]
    Container {
        /// Its sort and name.
        container: String,
        /// Where the secret is named.
        location: String,
        secret: String,
        account: String,
    },
    #[error(
        "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {account} does not reference that \
         imagePullSecret"
    )]
    ImagePull {
        index: usize,
        secret: String,
        account: String,
    },
}

/// Whether an account lets a new pod use the secrets it refers to.
// upstream: plugin/pkg/admission/serviceaccount/admission.go limitSecretReferences
pub(super) fn check(spec: &Value, account: &Value) -> Result<(), SecretReferenceError> {
    let own: HashSet<_> = names(account.items("secrets")).into_iter().collect();
    let by = account.at("metadata").text("name");
    for volume in spec.items("volumes").iter().filter(|volume| volume.has("secret")) {
        let name = volume.at("secret").text("secretName");
        if !own.contains(name) {
            return Err(SecretReferenceError::Volume {
                secret: name.to_owned(),
                account: by.to_owned(),
            });
        }
    }
    for list in &CONTAINERS[..2] {
        check_containers(spec, list, &own, by)?;
    }
    let pull: HashSet<_> = names(account.items("imagePullSecrets")).into_iter().collect();
    for (index, name) in names(spec.items("imagePullSecrets")).into_iter().enumerate() {
        if !pull.contains(name) {
            return Err(SecretReferenceError::ImagePull {
                index,
                secret: name.to_owned(),
                account: by.to_owned(),
            });
        }
    }
    Ok(())
}

/// The same for containers that join a running pod.
// upstream: plugin/pkg/admission/serviceaccount/admission.go limitEphemeralContainerSecretReferences
pub(super) fn check_ephemeral(spec: &Value, account: &Value) -> Result<(), SecretReferenceError> {
    let own: HashSet<_> = names(account.items("secrets")).into_iter().collect();
    check_containers(spec, &CONTAINERS[2], &own, account.at("metadata").text("name"))
}

/// Whether a pod refers to any secret.
pub(super) fn any(spec: &Value) -> bool {
    let pull = names(spec.items("imagePullSecrets")).into_iter();
    let containers = CONTAINERS.iter().flat_map(|(list, _)| spec.items(list));
    let used = containers.flat_map(|container| of_container(container).map(|(name, _)| name));
    let mounted = spec.items("volumes").iter().flat_map(|volume| {
        let plain = VOLUME_SECRETS
            .iter()
            .map(|way| volume.at_path(way).as_str().unwrap_or_default());
        let projected = volume.at("projected").items("sources").iter();
        plain.chain(projected.map(|source| source.at("secret").text("name")))
    });
    pull.chain(used).chain(mounted).any(|name| !name.is_empty())
}

fn check_containers(
    spec: &Value,
    (list, called): &(&str, &str),
    own: &HashSet<&str>,
    by: &str,
) -> Result<(), SecretReferenceError> {
    for container in spec.items(list) {
        for (name, location) in of_container(container) {
            if !own.contains(name) {
                return Err(SecretReferenceError::Container {
                    container: format!("{called} {}", container.text("name")),
                    location,
                    secret: name.to_owned(),
                    account: by.to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// The secrets a container refers to, and where.
fn of_container(container: &Value) -> impl Iterator<Item = (&str, String)> {
    let variables = container.items("env").iter().filter_map(|variable| {
        let reference = variable.at_path("valueFrom.secretKeyRef");
        let location = format!("envVar {}", variable.text("name"));
        reference.is_object().then(|| (reference.text("name"), location))
    });
    let sources = container.items("envFrom").iter().filter_map(|source| {
        let reference = source.at("secretRef");
        reference
            .is_object()
            .then(|| (reference.text("name"), "envFrom".to_owned()))
    });
    variables.chain(sources)
}

fn names(references: &[Value]) -> Vec<&str> {
    references
        .iter()
        .map(|reference| reference.text("name"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(spec: &Value) -> String {
        let account = json!({
            "metadata": {"name": "sa"},
            "secrets": [{"name": "own"}],
            "imagePullSecrets": [{"name": "pull"}],
        });
        check(spec, &account)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn allows_only_secrets_of_account() {
        let variable =
            |name: &str| json!({"name": "V", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}});
        let allowed = json!({
            "containers": [{"name": "c", "env": [{"name": "A"}, variable("own")], "envFrom": [{"secretRef": {"name": "own"}}]}],
            "imagePullSecrets": [{"name": "pull"}],
        });
        assert_eq!(refused(&allowed), "");
        assert_eq!(
            refused(&json!({"initContainers": [{"name": "i", "env": [variable("x")]}]})),
            "init container i with envVar V referencing secret.secretName=\"x\" is not allowed because service account sa does \
             not reference that secret"
        );
        assert_eq!(
            refused(&json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]})),
            "container c with envFrom referencing secret.secretName=\"x\" is not allowed because service account sa does not \
             reference that secret"
        );
        assert_eq!(
            refused(&json!({"imagePullSecrets": [{"name": "pull"}, {"name": "own"}]})),
            "imagePullSecrets[1].name=\"own\" is not allowed because service account sa does not reference that imagePullSecret"
        );
    }

    #[test]
    fn finds_every_secret_reference() {
        assert!(!any(
            &json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "x"}}]}]})
        ));
        assert!(any(
            &json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]})
        ));
        assert!(any(
            &json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "x"}}]}}]})
        ));
        for way in VOLUME_SECRETS {
            let source = way
                .rsplit('.')
                .fold(json!("x"), |value, name| json!({name: value}));
            assert!(any(&json!({"volumes": [source]})), "{way}");
        }
    }
}
