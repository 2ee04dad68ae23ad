//! Programs of the host and the packages that contain them.

use std::{env, path::PathBuf};

use crate::ServiceError;

/// A program that a service needs, and where to get it.
pub struct Program {
    /// Its name, as one would type it.
    pub name: &'static str,
    /// The Debian package of the program.
    pub package: &'static str,
    /// The environment variable that offers a running service instead.
    pub variable: &'static str,
}

/// Where `name` is installed, looked for on the search path and where Debian keeps daemons (which is not
/// on the search path of a plain user).
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

// --- Program ---

impl Program {
    /// Where the program is, or an error that describes how to get it.
    pub(crate) fn find(&self) -> Result<PathBuf, ServiceError> {
        find_program(self.name).ok_or(ServiceError::Missing {
            program: self.name,
            package: self.package,
            variable: self.variable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package_and_the_way_out() {
        let absent = Program {
            name: "no-such-daemon",
            package: "no-such-package",
            variable: "K3_TEST_NONE",
        };
        let message = absent.find().unwrap_err().to_string();
        for part in [
            "no-such-daemon",
            "no-such-package",
            "K3_TEST_NONE",
            "cargo xtask test",
        ] {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }

    #[test]
    fn an_installed_program_is_found() {
        assert!(find_program("sh").is_some());
    }
}
