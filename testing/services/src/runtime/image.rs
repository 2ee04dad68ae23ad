//! Test images built from this machine's static busybox, because there is no registry.

use std::{
    env::consts::ARCH,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::{Program, ServiceError};

/// A shell and the usual small programs.
pub const TEST_IMAGE: &str = "k3.test/busybox:1";
/// The same, whose programs run as the user 1000.
pub const TEST_IMAGE_WITH_USER: &str = "k3.test/user:1";
/// The same, whose programs run as the user `daemon`, by name.
pub const TEST_IMAGE_WITH_NAMED_USER: &str = "k3.test/named-user:1";
/// The pause image, which holds the namespaces of pods on containerd.
pub const PAUSE_IMAGE: &str = "k3.test/pause:1";

const BUSYBOX: Program = Program {
    name: "busybox",
    package: "busybox-static",
    variable: "K3_TEST_DOCKER, K3_TEST_PODMAN, K3_TEST_CONTAINERD",
};

/// The description of an image. Unset fields have Docker's defaults.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) name: &'static str,
    /// Whom its programs run as.
    pub(super) user: &'static str,
    /// As a list of JSON, or `null`.
    pub(super) entrypoint: &'static str,
    /// The same.
    pub(super) command: &'static str,
}

/// The images that all tests have.
const IMAGES: [Image; 4] = [
    Image {
        name: TEST_IMAGE,
        ..Image::SHELL
    },
    Image {
        name: TEST_IMAGE_WITH_USER,
        user: "1000",
        ..Image::SHELL
    },
    Image {
        name: TEST_IMAGE_WITH_NAMED_USER,
        user: "daemon",
        ..Image::SHELL
    },
    Image {
        name: PAUSE_IMAGE,
        user: "",
        entrypoint: r#"["/bin/sleep","infinity"]"#,
        command: "null",
    },
];

// --- Image ---

impl Image {
    /// One that runs a shell.
    pub(super) const SHELL: Self = Self {
        name: "",
        user: "",
        entrypoint: "null",
        command: r#"["/bin/sh"]"#,
    };
}

/// Writes the images of all tests to the file `archive`, as `docker save` does; `directory` is for temporary files.
pub(super) fn write_archive(directory: &Path, archive: &Path) -> Result<(), ServiceError> {
    write_images(directory, archive, &IMAGES, add_busybox)
}

/// Writes images that are all of what `fill` puts into their root directory.
pub(super) fn write_images(
    directory: &Path,
    archive: &Path,
    images: &[Image],
    fill: impl FnOnce(&Path) -> Result<(), ServiceError>,
) -> Result<(), ServiceError> {
    let root = directory.join("image-root");
    fill(&root)?;
    let files = directory.join("image-files");
    fs::create_dir_all(&files).map_err(ServiceError::io("make the directory of an image"))?;
    let layer = files.join("layer.tar");
    tar(&root, &layer, &["."])?;
    let layer_sum = sha256(&layer)?;
    let mut entries = Vec::new();
    for Image {
        name: image,
        user,
        entrypoint,
        command,
    } in images
    {
        let config = format!(
            r#"{{"architecture":"{}","os":"linux","created":"2026-01-01T00:00:00Z","config":{{"User":"{user}","Env":["PATH=/bin"],"Entrypoint":{entrypoint},"Cmd":{command},"WorkingDir":"/"}},"rootfs":{{"type":"layers","diff_ids":["sha256:{layer_sum}"]}},"history":[{{"created":"2026-01-01T00:00:00Z","created_by":"tests of k3"}}]}}"#,
            architecture()
        );
        let written = files.join("config.json");
        fs::write(&written, config).map_err(ServiceError::io("write the configuration of an image"))?;
        let name = format!("{}.json", sha256(&written)?);
        fs::rename(&written, files.join(&name))
            .map_err(ServiceError::io("name the configuration of an image"))?;
        entries.push(format!(
            r#"{{"Config":"{name}","RepoTags":["{image}"],"Layers":["layer.tar"]}}"#
        ));
    }
    fs::write(files.join("manifest.json"), format!("[{}]", entries.join(",")))
        .map_err(ServiceError::io("write the list of images"))?;
    tar(&files, archive, &["."])?;
    for directory in [root, files] {
        fs::remove_dir_all(directory).map_err(ServiceError::io("remove what an image was made of"))?;
    }
    Ok(())
}

/// What all images have: busybox under all its names, and the directories that programs expect.
pub(super) fn add_busybox(root: &Path) -> Result<(), ServiceError> {
    let io = ServiceError::io;
    for directory in ["bin", "dev", "etc", "proc", "root", "sys", "tmp", "var/tmp"] {
        fs::create_dir_all(root.join(directory)).map_err(io("make a directory of an image"))?;
    }
    for directory in ["tmp", "var/tmp"] {
        fs::set_permissions(root.join(directory), fs::Permissions::from_mode(0o1777))
            .map_err(io("open a directory of an image"))?;
    }
    let busybox = BUSYBOX.find()?;
    fs::copy(&busybox, root.join("bin/busybox")).map_err(io("copy busybox"))?;
    let listed = run(Command::new(&busybox).arg("--list"))?;
    for applet in String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|name| *name != "busybox")
    {
        symlink("busybox", root.join("bin").join(applet)).map_err(io("link a program of busybox"))?;
    }
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:2:2:daemon:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    )
    .map_err(io("write the users of an image"))?;
    fs::write(
        root.join("etc/group"),
        "root:x:0:\ndaemon:x:2:\nnogroup:x:65534:\n",
    )
    .map_err(io("write the groups of an image"))
}

/// The same bytes each time, so that the same image has the same id.
fn tar(directory: &Path, archive: &Path, what: &[&str]) -> Result<(), ServiceError> {
    run(Command::new("tar")
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .arg("-C")
        .arg(directory)
        .arg("-cf")
        .arg(archive)
        .args(what))
    .map(drop)
}

fn sha256(file: &Path) -> Result<String, ServiceError> {
    let output = run(Command::new("sha256sum").arg(file))?;
    Ok(String::from_utf8_lossy(&output.stdout).chars().take(64).collect())
}

/// Runs a command that must succeed.
pub(super) fn run(command: &mut Command) -> Result<Output, ServiceError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(ServiceError::io("run a program that prepares images or networks"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(ServiceError::Failed {
        command: format!("{command:?}"),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
