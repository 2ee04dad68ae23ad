//! Volumes of pods: sets them up on the host, updates them, mounts them into containers and tears them down.
//!
//! ```text
//! manager                 VolumeManager: the volumes of all pods of the node
//!
//! spec                    VolumeSpec: a volume of a pod, or the PersistentVolume of its claim
//! persistent_volume_claim finds the PersistentVolume of a claim
//! plugin                  the traits VolumePlugin and Mounter, which a volume type implements
//! plugins/                one file per volume type, and their registry
//! container_mounts        the mounts of one container, with sub paths
//! tear_down               unmounts and removes the volumes of a pod (TearDown)
//!
//! files_mounter payload atomic_writer                               files of API objects, replaced atomically
//! safe_open directory_walk                                          paths and trees that containers may change concurrently
//! create_directory memory_size                                      modes of directories, size limits of volumes in memory
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
mod container_mounts;
mod create_directory;
mod directory_walk;
mod error;
mod files_mounter;
mod manager;
mod memory_size;
mod mount_table;
mod nested_mounts;
mod ownership;
mod payload;
mod persistent_volume_claim;
mod plugin;
mod plugins;
mod pod_directories;
mod safe_open;
mod spec;
mod tear_down;
#[cfg(test)]
mod tests;
mod usage;

pub use self::{
    container_mounts::{MakeMountError, RecursiveReadOnlyError, ResolveMountsError},
    error::{MountFailure, VolumeFailure, VolumeManagerError},
    manager::VolumeManager,
    pod_directories::PodDirectories,
    tear_down::{remove_directory, remove_node_directory},
    usage::VolumeUsage,
};
