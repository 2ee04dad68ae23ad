//! Mounts of other volumes on folders of a volume: they are made in it, as it can only be read where it is mounted.

use k8s_openapi::api::core::v1::{Pod, VolumeMount};

/// The folders of a volume that other volumes of the pod are mounted on.
pub(super) fn folders(pod: &Pod, volume: &str) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| &container.volume_mounts);
    let regular = spec.containers.iter().map(|container| &container.volume_mounts);
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|container| &container.volume_mounts);
    let mut folders = Vec::new();
    for mounts in init.chain(regular).chain(ephemeral).flatten() {
        add(mounts, volume, &mut folders);
    }
    folders.sort();
    folders.dedup();
    folders
}

fn add(mounts: &[VolumeMount], volume: &str, folders: &mut Vec<String>) {
    let places: Vec<_> = mounts
        .iter()
        .filter_map(|mount| Some((mount, clean(&mount.mount_path)?)))
        .collect();
    for (_, own) in places.iter().filter(|(mount, _)| mount.name == volume) {
        let prefix = format!("{own}/");
        let mut beneath: Vec<_> = places
            .iter()
            .filter_map(|(_, place)| place.strip_prefix(&prefix))
            .collect();
        beneath.sort_unstable();
        let mut outer: Vec<String> = Vec::new();
        for folder in beneath {
            // What is on a folder of another volume is that one's matter.
            if !outer.iter().any(|outer| folder.starts_with(outer.as_str())) {
                outer.push(format!("{folder}/"));
                folders.push(folder.to_owned());
            }
        }
    }
}

/// An absolute path without `.` and doubled slashes; none if it steps back.
fn clean(path: &str) -> Option<String> {
    let parts: Vec<_> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    (!parts.contains(&"..")).then(|| format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_outermost_mounts_get_folders() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "volumeMounts": [
            {"name": "conf", "mountPath": "/etc/conf"},
            {"name": "b", "mountPath": "/etc/conf/nested/deeper"},
            {"name": "a", "mountPath": "/etc/conf//nested/"},
            {"name": "c", "mountPath": "/etc/conf-other"},
            {"name": "d", "mountPath": "/etc/conf/../../root"},
            {"name": "e", "mountPath": "/etc/conf/x.key"},
        ]}]}}))
        .unwrap();
        assert_eq!(folders(&pod, "conf"), ["nested", "x.key"]);
        assert_eq!(folders(&pod, "a"), ["deeper"]);
        assert!(folders(&pod, "c").is_empty());
    }
}
