//! Files of CNI: configurations and plugins. Blocks on file I/O.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{FIREWALL_PLUGIN, NetworkError};

/// Default CNI plugin directories, if the runtime reports none.
const DEFAULT_PLUGINS: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// Required plugins.
pub(super) const REQUIRED_PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

pub(super) struct FoundPlugins {
    pub(super) has_firewall: bool,
}

/// Checks that the runtime will find the required plugins.
pub(super) fn find_plugins(reported: &[PathBuf]) -> Result<FoundPlugins, NetworkError> {
    let defaults: Vec<PathBuf> = DEFAULT_PLUGINS.iter().map(PathBuf::from).collect();
    let searched = if reported.is_empty() { &defaults } else { reported };
    let is_in = |directories: &[PathBuf], plugin: &str| {
        directories
            .iter()
            .any(|directory| directory.join(plugin).is_file())
    };
    let missing: Vec<String> = REQUIRED_PLUGINS
        .iter()
        .filter(|plugin| !is_in(searched, plugin))
        .map(|plugin| (*plugin).to_owned())
        .collect();
    if missing.is_empty() {
        return Ok(FoundPlugins {
            has_firewall: is_in(searched, FIREWALL_PLUGIN),
        });
    }
    let elsewhere = defaults
        .iter()
        .find(|directory| missing.iter().all(|plugin| directory.join(plugin).is_file()))
        .map(|directory| format!(", or configure the runtime to use {}", directory.display()));
    Err(NetworkError::MissingPlugins {
        missing,
        searched: searched
            .iter()
            .map(|directory| directory.display().to_string())
            .collect(),
        elsewhere: elsewhere.unwrap_or_default(),
    })
}

/// Returns a CNI configuration that is not the one at `own_path`.
pub(super) fn find_foreign(directory: &Path, own_path: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_configuration = path
            .extension()
            .is_some_and(|end| end == "conf" || end == "conflist" || end == "json");
        if is_configuration && path != own_path {
            found.push(path);
        }
    }
    // Runtimes use the first in lexical order.
    Ok(found.into_iter().min())
}

/// Content of a configuration, if it exists and is readable.
pub(super) fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Writes a configuration. Runtimes read every file with a known extension at any time, so the file must appear complete.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}
