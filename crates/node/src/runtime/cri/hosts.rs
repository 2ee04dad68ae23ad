//! The file `/etc/hosts` of pods. Runtimes of CRI write none, so that it is mounted, as the kubelet does it.

use std::{
    fmt::Write,
    net::IpAddr,
    path::{Path, PathBuf},
};

use tokio::fs;

use crate::runtime::{ContainerSpec, HostEntry, NamespaceMode, RuntimeError, SandboxId, SandboxSpec};

use super::{Cri, messages, state};

const TARGET: &str = "/etc/hosts";

/// What is in every pod.
const USUAL: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// Writes the pod's file, and tells how to mount it; nothing if the container brings its own.
pub(super) async fn mount(
    cri: &Cri,
    sandbox: &SandboxId,
    pod: &SandboxSpec,
    spec: &ContainerSpec,
) -> Result<Option<messages::Mount>, RuntimeError> {
    if spec.mounts.iter().any(|mount| mount.target == TARGET) {
        return Ok(None);
    }
    let text = if pod.network == NamespaceMode::Node {
        // The machine's own names, and those of the pod.
        let machine = fs::read_to_string(TARGET).await.unwrap_or_default();
        with_machine(&machine, &pod.hosts)
    } else {
        let status = cri.sandbox_status(&sandbox.0, false).await?;
        let addresses = status.and_then(|answer| answer.status.as_ref().map(state::addresses));
        own(&addresses.unwrap_or_default(), &pod.hostname, &pod.hosts)
    };
    let path = file(&pod.log_directory);
    let failed =
        |error: std::io::Error| RuntimeError::Refused(format!("cannot write {}: {error}", path.display()));
    // Containers of the pod have it mounted already: what is right is left alone.
    if fs::read_to_string(&path).await.ok().as_ref() != Some(&text) {
        fs::write(&path, text).await.map_err(failed)?;
    }
    Ok(Some(messages::Mount {
        container_path: TARGET.to_owned(),
        host_path: path.to_string_lossy().into_owned(),
        readonly: is_read_only(spec),
        ..messages::Mount::default()
    }))
}

/// Removes the pod's file, with the last of its sandboxes.
pub(super) async fn remove(folder: &Path) {
    // It is all that is left in a folder that is removed only if it is empty.
    let _ = fs::remove_file(file(folder)).await;
}

fn file(folder: &Path) -> PathBuf {
    folder.join("etc-hosts")
}

/// Who can only read its root can only read this, too.
fn is_read_only(spec: &ContainerSpec) -> bool {
    spec.security.read_only_root
}

/// The file of a pod with a network of its own.
fn own(addresses: &[IpAddr], hostname: &str, entries: &[HostEntry]) -> String {
    let mut text = format!("# Kubernetes-managed hosts file.\n{USUAL}");
    for address in addresses {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{address}\t{hostname}");
    }
    text + &aliases(entries)
}

/// The file of a pod with the machine's network.
fn with_machine(machine: &str, entries: &[HostEntry]) -> String {
    format!(
        "# Kubernetes-managed hosts file (host network).\n{machine}{}",
        aliases(entries)
    )
}

fn aliases(entries: &[HostEntry]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for entry in entries {
        let _ = writeln!(text, "{}\t{}", entry.ip, entry.names.join("\t"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<HostEntry> {
        vec![HostEntry {
            ip: "1.2.3.4".to_owned(),
            names: vec!["a".to_owned(), "b.c".to_owned()],
        }]
    }

    #[test]
    fn a_pod_finds_itself_and_its_aliases() {
        let text = own(&["10.1.0.2".parse().unwrap()], "web-0", &entries());
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
        assert!(text.ends_with("10.1.0.2\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb.c\n"));
    }

    #[test]
    fn with_the_machines_network_its_names_stay() {
        let text = with_machine("9.9.9.9 gate\n", &[]);
        assert_eq!(
            text,
            "# Kubernetes-managed hosts file (host network).\n9.9.9.9 gate\n"
        );
    }
}
