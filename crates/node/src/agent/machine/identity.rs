//! Machine ID, boot ID, kernel and operating system of the host.

use super::MachineReader;

/// IDs and versions for `nodeInfo` of the Node status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct MachineIdentity {
    pub(in crate::agent) machine_id: String,
    pub(in crate::agent) system_uuid: String,
    /// Changes with each boot.
    pub(in crate::agent) boot_id: String,
    pub(in crate::agent) kernel: String,
    pub(in crate::agent) os_image: String,
}

impl MachineIdentity {
    pub(super) fn read(machine_reader: &MachineReader) -> Self {
        let first = |paths: &[&str]| {
            let texts = paths.iter().map(|path| {
                machine_reader
                    .read(path)
                    .trim_matches(['\0', '\n', ' '])
                    .to_owned()
            });
            texts
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_default()
        };
        let machine_id = first(&["etc/machine-id", "var/lib/dbus/machine-id"]);
        let uuid = first(&[
            "sys/class/dmi/id/product_uuid",
            "proc/device-tree/system-id",
            "proc/device-tree/vm,uuid",
        ]);
        let kernel = rustix::system::uname();
        MachineIdentity {
            system_uuid: if uuid.is_empty() {
                machine_id.clone()
            } else {
                uuid.to_lowercase()
            },
            machine_id,
            boot_id: first(&["proc/sys/kernel/random/boot_id"]),
            kernel: kernel.release().to_string_lossy().into_owned(),
            os_image: os_image(&machine_reader.read("etc/os-release"))
                .or_else(|| os_image(&machine_reader.read("usr/lib/os-release")))
                .unwrap_or_else(|| "Unknown".to_owned()),
        }
    }
}

fn os_image(release: &str) -> Option<String> {
    let line = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = line.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The architecture as images and labels name it (GOARCH).
pub(in crate::agent) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_os_image() {
        for (text, want) in [
            (
                "PRETTY_NAME=\"Debian GNU/Linux 12\"\n",
                Some("Debian GNU/Linux 12"),
            ),
            ("NAME=x\nPRETTY_NAME='Alpine'\n", Some("Alpine")),
            ("NAME=x\n", None),
        ] {
            assert_eq!(os_image(text).as_deref(), want);
        }
    }
}
