//! The default data directory.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::command_error::CommandError;

/// The given directory, or the default.
pub(crate) fn data_dir(named: Option<&Path>) -> Result<PathBuf, CommandError> {
    named.map_or_else(default_data_dir, |directory| Ok(directory.to_path_buf()))
}

/// Whether a server creates a file or directory with this name in its data directory.
pub(crate) fn is_data_file(name: &OsStr) -> bool {
    const NAMES: [&str; 10] = [
        "admin.kubeconfig",
        "controller-server",
        "databases",
        "format",
        "node",
        "node-server",
        "objects",
        "scheduler-server",
        "tls",
        "volumes",
    ];
    let name = name.to_string_lossy();
    let is_temporary = name.starts_with('.') && name.ends_with(".new");
    let is_snapshot = name.starts_with("snapshot-") && name.ends_with(".k3");
    is_temporary || is_snapshot || NAMES.contains(&&*name)
}

/// `/var/lib/k3` for root, else a directory of the user.
pub(crate) fn default_data_dir() -> Result<PathBuf, CommandError> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/k3".into());
    }
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_DATA_HOME")
        .or_else(|| Some(set("HOME")?.join(".local/share")))
        .map(|directory| directory.join("k3"))
        .ok_or_else(|| {
            CommandError::usage(
                "no home directory for data",
                "name a data directory with --data-dir",
            )
        })
}
