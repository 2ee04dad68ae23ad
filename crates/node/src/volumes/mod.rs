//! Volumes of pods: sets them up on the host, updates them, mounts them into containers and tears them down.
//!
//! ```text
//! manager                 VolumeManager: the volumes of all pods of the node
//!
//! mount_plan              what to set up for one volume, read from the API (VolumeContext, MountPlan)
//! mounter                 sets up a volume on disk as planned (SetUp)
//! container_mounts        the mounts of one container, with sub paths
//! tear_down               unmounts and removes the volumes of a pod (TearDown)
//!
//! empty_dir host_path config_map secret projected downward_api      one module per volume plugin
//! persistent_volume_claim cluster_trust_bundle
//! payload atomic_writer                                             files of API objects, replaced atomically
//! safe_open directory_walk                                          paths and trees that containers may change concurrently
//! pod_directories mount_table nested_mounts ownership usage         paths, mount(2), fsGroup, disk usage
//! ```
//!
//! Promises:
//! - Setting up a pod again changes only what is out of date. The failure of one volume does not affect the others.
//! - A container cannot make the node leave a volume: not with symlinks, not with `..`, not with a race.
//! - Nothing is removed through a symlink or a mount. The node unmounts only what it mounted.
//! - Secrets and tokens are in memory (tmpfs) only, if the node may mount tmpfs.
//! - File I/O runs on blocking threads, never on a thread of the async runtime.

mod atomic_writer;
mod cluster_trust_bundle;
mod config_map;
mod container_mounts;
mod directory_walk;
mod downward_api;
mod empty_dir;
mod error;
mod host_path;
mod manager;
mod mount_plan;
mod mount_table;
mod mounter;
mod nested_mounts;
mod ownership;
mod payload;
mod persistent_volume_claim;
mod pod_directories;
mod projected;
mod safe_open;
mod secret;
mod tear_down;
#[cfg(test)]
mod tests;
mod usage;

pub use self::{
    error::{MountFailure, VolumeFailure, VolumeManagerError},
    manager::VolumeManager,
    pod_directories::PodDirectories,
    tear_down::{remove_directory, remove_node_directory},
    usage::VolumeUsage,
};
