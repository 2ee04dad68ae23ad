//! The programs that tests need, and how they are installed.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
};

use k3_test_services::find_program;

const INSTALL: &str = include_str!("install.sh");

/// A program, and where it comes from. A new one is a new line in [`TOOLS`].
pub(crate) struct Tool {
    /// What is looked for on the machine.
    binary: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    /// The environment variable that offers a running service in its place; empty if none does.
    variable: &'static str,
}

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        binary: "etcd",
        package: "etcd-server",
        variable: "K3_TEST_ETCD",
    },
    Tool {
        binary: "mariadbd",
        package: "mariadb-server",
        variable: "K3_TEST_MYSQL",
    },
    Tool {
        binary: "dockerd",
        package: "docker.io",
        variable: "K3_TEST_DOCKER",
    },
    Tool {
        binary: "podman",
        package: "podman",
        variable: "K3_TEST_PODMAN",
    },
    Tool {
        binary: "containerd",
        package: "containerd",
        variable: "K3_TEST_CONTAINERD",
    },
    // Needed beside a runtime, whoever offers it: nothing stands in their place.
    Tool {
        binary: "runc",
        package: "runc",
        variable: "",
    },
    Tool {
        binary: "busybox",
        package: "busybox-static",
        variable: "",
    },
    Tool {
        binary: "/usr/lib/cni/bridge",
        package: "containernetworking-plugins",
        variable: "",
    },
    Tool {
        binary: "iptables",
        package: "iptables",
        variable: "",
    },
    // The second reader of certificates and requests.
    Tool {
        binary: "openssl",
        package: "openssl",
        variable: "",
    },
];

/// Installs what is missing, as root. Otherwise nothing: the test that starts the program then reports what is
/// missing and which package has it.
pub(crate) fn install_missing() {
    let missing = missing(|binary| find_program(binary).is_some(), is_offered);
    if missing.is_empty() || !is_root() || find_program("apt-get").is_none() {
        return;
    }
    for tool in &missing {
        println!("installing {} ({} is missing)", tool.package, tool.binary);
    }
    install(&missing);
}

/// Whether the environment offers the service that `variable` names.
pub(crate) fn is_offered(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn missing(is_installed: impl Fn(&str) -> bool, is_offered: impl Fn(&str) -> bool) -> Vec<&'static Tool> {
    TOOLS
        .iter()
        .filter(|tool| !is_installed(tool.binary) && !is_offered(tool.variable))
        .collect()
}

fn install(missing: &[&Tool]) {
    let packages = missing.iter().map(|tool| tool.package);
    let output = Command::new("sh")
        .args(["-c", INSTALL, "install"])
        .args(packages)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprintln!("xtask: the installation failed:");
            eprint!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Err(error) => eprintln!("xtask: cannot run the installation: {error}"),
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(tools: &[&Tool]) -> Vec<&'static str> {
        tools.iter().map(|tool| tool.package).collect()
    }

    #[test]
    fn what_is_neither_installed_nor_offered_is_missing() {
        assert_eq!(
            packages(&missing(|_| false, |_| false)),
            TOOLS.iter().map(|tool| tool.package).collect::<Vec<_>>()
        );
        assert_eq!(
            packages(&missing(|binary| binary != "mariadbd", |_| false)),
            ["mariadb-server"]
        );
        assert_eq!(
            packages(&missing(
                |binary| !["etcd", "mariadbd"].contains(&binary),
                |variable| variable == "K3_TEST_MYSQL"
            )),
            ["etcd-server"]
        );
    }
}
