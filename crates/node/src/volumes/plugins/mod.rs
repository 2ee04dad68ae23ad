//! The volume plugins, one file each.

mod cluster_trust_bundle;
mod config_map;
mod downward_api;
mod empty_dir;
mod host_path;
mod image;
mod local;
mod projected;
mod secret;

use super::plugin::VolumePlugin;

/// The plugins of this crate. A plugin is a file of this directory, and its line here.
// upstream: cmd/kubelet/app/plugins.go ProbeVolumePlugins
pub(super) fn probe_volume_plugins() -> Vec<Box<dyn VolumePlugin>> {
    vec![
        Box::new(config_map::ConfigMapPlugin),
        Box::new(downward_api::DownwardApiPlugin),
        Box::new(empty_dir::EmptyDirPlugin),
        Box::new(host_path::HostPathPlugin),
        Box::new(image::ImagePlugin),
        Box::new(local::LocalVolumePlugin),
        Box::new(projected::ProjectedPlugin),
        Box::new(secret::SecretPlugin),
    ]
}
