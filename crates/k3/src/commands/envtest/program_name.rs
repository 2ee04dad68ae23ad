//! One program, several names.

use std::{env::ArgsOs, ffi::OsStr, path::Path};

use super::{apiserver, etcd};
use crate::failure::Failure;

/// What this process was called as, if not as `k3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Apiserver,
    Etcd,
}

// --- Program ---

impl Program {
    /// The part that a process is, by the name that it was called by.
    pub(crate) fn from_name(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "kube-apiserver" => Some(Self::Apiserver),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    /// Runs the program until a signal.
    pub(crate) fn run(self, arguments: ArgsOs) -> Result<(), Failure> {
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
    fn the_name_decides_wherever_the_link_is() {
        let called = |name: &str| Program::from_name(OsStr::new(name));
        assert_eq!(called("/usr/local/kubebuilder/bin/etcd"), Some(Program::Etcd));
        assert_eq!(called("kube-apiserver"), Some(Program::Apiserver));
        assert_eq!(called("./k3"), None);
        assert_eq!(called("/etcd/k3"), None);
        assert_eq!(called(""), None);
    }
}
