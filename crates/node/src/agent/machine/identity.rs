//! What a machine is called, and what runs on it.

use super::Eyes;

/// What a machine is called, and what runs on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Identity {
    pub(in crate::agent) machine_id: String,
    pub(in crate::agent) system_uuid: String,
    /// Another one after each boot.
    pub(in crate::agent) boot_id: String,
    pub(in crate::agent) kernel: String,
    pub(in crate::agent) os_image: String,
}

impl Identity {
    pub(super) fn read(eyes: &Eyes) -> Self {
        let first = |paths: &[&str]| {
            let texts = paths
                .iter()
                .map(|path| eyes.read(path).trim_matches(['\0', '\n', ' ']).to_owned());
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
        Identity {
            system_uuid: if uuid.is_empty() {
                machine_id.clone()
            } else {
                uuid.to_lowercase()
            },
            machine_id,
            boot_id: first(&["proc/sys/kernel/random/boot_id"]),
            kernel: kernel.release().to_string_lossy().into_owned(),
            os_image: os_image(&eyes.read("etc/os-release"))
                .or_else(|| os_image(&eyes.read("usr/lib/os-release")))
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

/// The architecture, in the words of images and labels.
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
    fn the_system_has_a_name() {
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
