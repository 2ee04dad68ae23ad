//! What confines a container, as the engine is told.

use super::Flavor;
use crate::runtime::{Confinement, RuntimeError, Security};

/// The options for security. `seccomp` is the content of the profile's file: Docker does not read files for others.
pub(super) fn security_options(
    flavor: Flavor,
    security: &Security,
    seccomp: Option<&str>,
) -> Result<Vec<String>, RuntimeError> {
    let mut options = Vec::new();
    match (&security.seccomp, flavor) {
        (Confinement::Default, _) => {}
        (Confinement::Unconfined, _) => options.push("seccomp=unconfined".to_owned()),
        (Confinement::Local(file), Flavor::Podman) => options.push(format!("seccomp={file}")),
        (Confinement::Local(file), Flavor::Docker) => {
            let profile = seccomp
                .ok_or_else(|| RuntimeError::Refused(format!("cannot load seccomp profile \"{file}\"")))?;
            options.push(format!("seccomp={profile}"));
        }
    }
    match &security.apparmor {
        Confinement::Default => {}
        Confinement::Unconfined => options.push("apparmor=unconfined".to_owned()),
        Confinement::Local(profile) => options.push(format!("apparmor={profile}")),
    }
    if security.no_new_privileges {
        options.push("no-new-privileges".to_owned());
    }
    if let Some(label) = &security.selinux {
        for (part, value) in ["user", "role", "type", "level"].into_iter().zip(label) {
            if !value.is_empty() {
                options.push(format!("label={part}:{value}"));
            }
        }
    }
    if flavor == Flavor::Podman {
        match security.masked_paths.as_deref() {
            None => {}
            Some([]) => options.push("unmask=ALL".to_owned()),
            // Beside those that Podman hides anyway; the read-only ones are its own.
            Some(paths) => options.push(format!("mask={}", paths.join(":"))),
        }
    }
    Ok(options)
}
