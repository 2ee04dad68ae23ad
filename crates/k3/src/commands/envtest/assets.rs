//! `k3 envtest-assets`: creates the directory of programs that controller-runtime's envtest uses.

use std::{
    env, fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{command_error::CommandError, commands::process::shell_quoted};

const EXAMPLES: &str = "\
Examples:
  eval \"$(k3 envtest-assets bin/envtest)\"
  go test ./...
      the test suites of an operator, with k3 instead of kube-apiserver and etcd

  KUBEBUILDER_ASSETS=$PWD/bin/envtest K3_ENVTEST_CONTROLLERS=1 go test ./...
      the same with controllers: garbage is collected, namespaces are deleted, deployments create pods

The links point to this program; create them again if it moves. See docs/testing.md.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Create a directory of programs for controller-runtime's envtest.
///
/// The directory gets the links kube-apiserver and etcd, which point to k3, and kubectl if it is installed. The command prints
/// `export KUBEBUILDER_ASSETS=...`, which makes envtest use the directory.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AssetsFlags {
    /// The directory, created if missing. Existing files of these names that are not links are an error
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(flags: &AssetsFlags) -> Result<(), CommandError> {
    let failed = |error: io::Error| {
        let what = format!("cannot create the links in {}", flags.directory.display());
        CommandError::new(
            what,
            "choose a directory that this user may write to, without files of those names",
        )
        .caused_by(error)
    };
    fs::create_dir_all(&flags.directory).map_err(failed)?;
    let directory = fs::canonicalize(&flags.directory).map_err(failed)?;
    let program = env::current_exe().map_err(failed)?;
    for name in ["kube-apiserver", "etcd"] {
        link(&program, &directory.join(name)).map_err(failed)?;
    }
    match kubectl(&directory) {
        Some(kubectl) => link(&kubectl, &directory.join("kubectl")).map_err(failed)?,
        None => eprintln!("kubectl is not installed: test suites that use it fail"),
    }
    print_line!("export KUBEBUILDER_ASSETS={}", shell_quoted(&directory));
    Ok(())
}

/// Creates a symbolic link and replaces an existing one.
fn link(to: &Path, at: &Path) -> io::Result<()> {
    match fs::symlink_metadata(at) {
        Ok(found) if found.is_symlink() => fs::remove_file(at)?,
        Ok(_) => {
            let why = format!("{} exists and is not a symbolic link", at.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    symlink(to, at)
}

/// Finds kubectl in PATH, except in `directory`.
fn kubectl(directory: &Path) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .filter(|path| path != directory)
        .map(|path| path.join("kubectl"))
        .find(|file| {
            fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}
