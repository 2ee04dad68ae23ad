//! One program, several names.

use std::{env::ArgsOs, ffi::OsStr, path::Path};

use super::{apiserver, etcd};
use crate::failure::Failure;

/// What this process was called as, if not as `k3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Apiserver,
    Etcd,
}

// --- Part ---

impl Part {
    /// The part that a process is, by the name that it was called by.
    pub(crate) fn called(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "kube-apiserver" => Some(Self::Apiserver),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    /// Does what the arguments ask for, until it is told to stop.
    pub(crate) fn run(self, arguments: ArgsOs) -> Result<(), Failure> {
        let words = arguments.map(|word| word.to_string_lossy().into_owned());
        match self {
            Self::Apiserver => apiserver::run(words),
            Self::Etcd => etcd::run(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_wherever_the_link_is() {
        let called = |name: &str| Part::called(OsStr::new(name));
        assert_eq!(called("/usr/local/kubebuilder/bin/etcd"), Some(Part::Etcd));
        assert_eq!(called("kube-apiserver"), Some(Part::Apiserver));
        assert_eq!(called("./k3"), None);
        assert_eq!(called("/etcd/k3"), None);
        assert_eq!(called(""), None);
    }
}
