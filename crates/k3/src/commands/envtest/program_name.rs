//! Selection of the program by its name.

use std::{env::ArgsOs, ffi::OsStr, path::Path};

use super::{apiserver, etcd};
use crate::command_error::CommandError;

/// A program of envtest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvtestProgram {
    Apiserver,
    Etcd,
}

// --- EnvtestProgram ---

impl EnvtestProgram {
    /// Returns the program with the file name of `program`, or `None` for k3 itself.
    pub(crate) fn from_name(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "kube-apiserver" => Some(Self::Apiserver),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    /// Runs the program until a signal.
    pub(crate) fn run(self, arguments: ArgsOs) -> Result<(), CommandError> {
        let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
        match self {
            Self::Apiserver => apiserver::run(arguments),
            Self::Etcd => etcd::run(arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_the_program_by_its_file_name() {
        let called = |name: &str| EnvtestProgram::from_name(OsStr::new(name));
        assert_eq!(
            called("/usr/local/kubebuilder/bin/etcd"),
            Some(EnvtestProgram::Etcd)
        );
        assert_eq!(called("kube-apiserver"), Some(EnvtestProgram::Apiserver));
        assert_eq!(called("./k3"), None);
        assert_eq!(called("/etcd/k3"), None);
        assert_eq!(called(""), None);
    }
}
