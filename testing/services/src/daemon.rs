//! Any program that serves, such as the one under test.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    ServiceError,
    supervisor::{ServiceDirectory, Supervisor},
};

/// A program with its own directory. Dropping it stops the program and removes the directory.
pub struct Daemon {
    supervisor: Supervisor,
    directory: PathBuf,
}

// --- Daemon ---

impl Daemon {
    /// Starts `program` with arguments that may name files in its directory, and waits until `is_ready` returns
    /// so of what it has written to standard output and standard error.
    pub fn start(
        name: &'static str,
        program: &Path,
        args: impl FnOnce(&Path) -> Vec<OsString>,
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<Self, ServiceError> {
        let own = ServiceDirectory::make(name, None)?;
        let directory = own.path().to_path_buf();
        let command = [program.as_os_str().to_owned()]
            .into_iter()
            .chain(args(&directory));
        let supervisor = Supervisor::new(name, own, command)?;
        supervisor.start(is_ready)?;
        Ok(Self {
            supervisor,
            directory,
        })
    }

    /// Its directory, also with the file `log`: what it has written.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }
}
