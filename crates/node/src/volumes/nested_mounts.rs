//! Mount points of other volumes in a volume. Volumes of API objects are mounted read-only, so the runtime cannot create mount
//! points in them; the node creates them beforehand.

use k8s_openapi::api::core::v1::{Pod, VolumeMount};

/// Paths in a volume that other volumes of the pod are mounted on.
// upstream: pkg/volume/util/nested_volumes.go getNestedMountpoints
pub(super) fn nested_mount_points(pod: &Pod, volume: &str) -> Vec<String> {
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
    let mut mount_points = Vec::new();
    for mounts in init.chain(regular).chain(ephemeral).flatten() {
        add_mount_points(mounts, volume, &mut mount_points);
    }
    mount_points.sort();
    mount_points.dedup();
    mount_points
}

/// Adds the mount points for the mounts of one container.
fn add_mount_points(mounts: &[VolumeMount], volume: &str, mount_points: &mut Vec<String>) {
    let paths: Vec<_> = mounts
        .iter()
        .filter_map(|mount| Some((mount, clean_path(&mount.mount_path)?)))
        .collect();
    for (_, volume_path) in paths.iter().filter(|(mount, _)| mount.name == volume) {
        let prefix = format!("{volume_path}/");
        let mut nested: Vec<_> = paths
            .iter()
            .filter_map(|(_, path)| path.strip_prefix(&prefix))
            .collect();
        // Sorted, so that an outer path comes before the paths in it.
        nested.sort_unstable();
        let mut outermost: Vec<String> = Vec::new();
        for path in nested {
            // A path in a nested volume is a mount point of that volume, not of this one.
            if !outermost.iter().any(|outer| path.starts_with(outer.as_str())) {
                outermost.push(format!("{path}/"));
                mount_points.push(path.to_owned());
            }
        }
    }
}

/// The path as an absolute path without `.` components and repeated slashes; `None` if it contains `..`.
fn clean_path(path: &str) -> Option<String> {
    let components: Vec<_> = path
        .split('/')
        .filter(|component| !matches!(*component, "" | "."))
        .collect();
    (!components.contains(&"..")).then(|| format!("/{}", components.join("/")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn returns_outermost_mount_points_only() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "volumeMounts": [
            {"name": "conf", "mountPath": "/etc/conf"},
            {"name": "b", "mountPath": "/etc/conf/nested/deeper"},
            {"name": "a", "mountPath": "/etc/conf//nested/"},
            {"name": "c", "mountPath": "/etc/conf-other"},
            {"name": "d", "mountPath": "/etc/conf/../../root"},
            {"name": "e", "mountPath": "/etc/conf/x.key"},
        ]}]}}))
        .unwrap();
        assert_eq!(nested_mount_points(&pod, "conf"), ["nested", "x.key"]);
        assert_eq!(nested_mount_points(&pod, "a"), ["deeper"]);
        assert!(nested_mount_points(&pod, "c").is_empty());
    }
}
