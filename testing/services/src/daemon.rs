//! Any program that serves, such as the one under test.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    ServiceError,
    supervisor::{Folder, Supervisor},
};

/// A program that runs in a folder of its own. Dropping it ends it and removes the folder.
pub struct Daemon {
    supervisor: Supervisor,
    folder: PathBuf,
}

// --- Daemon ---

impl Daemon {
    /// Starts `program` with arguments that may name files in its folder, and waits until `is_ready` says
    /// so of what it has written to standard output and standard error.
    pub fn start(
        name: &'static str,
        program: &Path,
        args: impl FnOnce(&Path) -> Vec<OsString>,
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<Self, ServiceError> {
        let own = Folder::make(name, None)?;
        let folder = own.path().to_path_buf();
        let command = [program.as_os_str().to_owned()].into_iter().chain(args(&folder));
        let supervisor = Supervisor::new(name, own, command)?;
        supervisor.start(is_ready)?;
        Ok(Self { supervisor, folder })
    }

    /// Its folder, also with the file `log`: what it has written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }
}
