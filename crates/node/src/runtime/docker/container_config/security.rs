//! Security options of a container.

use super::EngineFlavor;
use crate::runtime::{ContainerSecurity, RuntimeError, SecurityProfile};

/// Builds the security options. `seccomp` is the content of a localhost profile: Docker does not read the file itself.
pub(super) fn security_options(
    flavor: EngineFlavor,
    security: &ContainerSecurity,
    seccomp: Option<&str>,
) -> Result<Vec<String>, RuntimeError> {
    let mut options = Vec::new();
    match (&security.seccomp, flavor) {
        (SecurityProfile::RuntimeDefault, _) => {}
        (SecurityProfile::Unconfined, _) => options.push("seccomp=unconfined".to_owned()),
        (SecurityProfile::Localhost(file), EngineFlavor::Podman) => options.push(format!("seccomp={file}")),
        (SecurityProfile::Localhost(file), EngineFlavor::Docker) => {
            let profile = seccomp.ok_or_else(|| {
                RuntimeError::OperationFailed(format!("cannot load seccomp profile \"{file}\""))
            })?;
            options.push(format!("seccomp={profile}"));
        }
    }
    match &security.apparmor {
        SecurityProfile::RuntimeDefault => {}
        SecurityProfile::Unconfined => options.push("apparmor=unconfined".to_owned()),
        SecurityProfile::Localhost(profile) => options.push(format!("apparmor={profile}")),
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
    if flavor == EngineFlavor::Podman {
        match security.masked_paths.as_deref() {
            None => {}
            Some([]) => options.push("unmask=ALL".to_owned()),
            // Podman masks its default paths as well, and has fixed read-only paths.
            Some(paths) => options.push(format!("mask={}", paths.join(":"))),
        }
    }
    Ok(options)
}
