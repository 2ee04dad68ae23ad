//! Database images built from the programs of this machine: etcd, and a MariaDB with the environment variables of MySQL images.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    engine_api,
    image::{Image, add_busybox, run},
};
use crate::{ServiceError, etcd, mariadb};

/// An etcd, at the path that images of etcd have it at, without an entry point.
pub const TEST_ETCD_IMAGE: &str = "k3.test/etcd:1";
/// A MariaDB, set up by `MYSQL_DATABASE`, `MYSQL_ROOT_PASSWORD`, `MYSQL_USER` and `MYSQL_PASSWORD` at its first start.
pub const TEST_MYSQL_IMAGE: &str = "k3.test/mysql:1";

const ENTRY_POINT: &str = include_str!("mariadb-entrypoint.sh");

/// The programs of an image that are not of busybox, and where they are in it.
const ETCD_AT: &str = "usr/local/bin/etcd";
const MARIADB_AT: &str = "usr/sbin/mariadbd";
/// What MariaDB reads at run time.
const MARIADB_FILES: &str = "/usr/share/mysql";

/// Brings [`TEST_ETCD_IMAGE`] and [`TEST_MYSQL_IMAGE`] to the Docker or Podman at a socket, if they are not there.
pub fn load_database_images(socket: &Path) -> Result<(), ServiceError> {
    let etcd = Image {
        name: TEST_ETCD_IMAGE,
        ..Image::SHELL
    };
    engine_api::load_images(socket, &[etcd], |root| {
        copy_program(&etcd::PROGRAM.find()?, root, ETCD_AT)
    })?;
    let mysql = Image {
        name: TEST_MYSQL_IMAGE,
        entrypoint: r#"["/bin/sh","/entrypoint.sh"]"#,
        command: "null",
        ..Image::SHELL
    };
    engine_api::load_images(socket, &[mysql], |root| {
        add_busybox(root)?;
        copy_program(&mariadb::PROGRAM.find()?, root, MARIADB_AT)?;
        copy_directory(Path::new(MARIADB_FILES), root)?;
        fs::write(root.join("entrypoint.sh"), ENTRY_POINT)
            .map_err(ServiceError::io("write the entry point of an image"))
    })
}

/// Copies a program into a root directory, with the libraries that it needs.
fn copy_program(program: &Path, root: &Path, target: &str) -> Result<(), ServiceError> {
    copy(program, &root.join(target))?;
    let listed = run(Command::new("ldd").arg(program))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    // `name => /path (address)`, or `/path (address)` for the loader.
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(Path::new(library), &path_below(root, Path::new(library)))?;
    }
    Ok(())
}

fn copy_directory(directory: &Path, root: &Path) -> Result<(), ServiceError> {
    let target = path_below(root, directory);
    fs::create_dir_all(&target).map_err(ServiceError::io("make a directory of an image"))?;
    run(Command::new("cp")
        .args(["--recursive", "--dereference"])
        .arg(directory.join("."))
        .arg(target))
    .map(drop)
}

/// Copies a file or the target of a link.
fn copy(file: &Path, target: &Path) -> Result<(), ServiceError> {
    let directory = target.parent().unwrap_or(target);
    fs::create_dir_all(directory).map_err(ServiceError::io("make a directory of an image"))?;
    fs::copy(file, target).map_err(ServiceError::io("copy a program into an image"))?;
    fs::set_permissions(target, fs::Permissions::from_mode(0o755))
        .map_err(ServiceError::io("make a program of an image"))
}

fn path_below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
