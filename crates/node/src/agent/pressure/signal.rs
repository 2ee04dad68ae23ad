//! Things that a machine can run short of.

use std::collections::BTreeMap;

/// A thing that a machine can run short of, by its name in thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// `memory.available`
    MemoryAvailable,
    /// `nodefs.available`: where pods write.
    NodeFsAvailable,
    /// `nodefs.inodesFree`
    NodeFsInodesFree,
    /// `imagefs.available`: where images are.
    ImageFsAvailable,
    /// `imagefs.inodesFree`
    ImageFsInodesFree,
    /// `pid.available`
    PidAvailable,
}

/// What a node is short of then, and its name in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Memory,
    EphemeralStorage,
    Inodes,
    Pids,
}

/// What there is, and how much of it is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) capacity: u64,
    pub(super) available: u64,
}

/// What was seen.
pub(super) type Observations = BTreeMap<Signal, Observation>;

/// A condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Memory,
    Disk,
    Pid,
}

impl Signal {
    pub(super) fn resource(self) -> Resource {
        match self {
            Signal::MemoryAvailable => Resource::Memory,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable => Resource::EphemeralStorage,
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => Resource::Inodes,
            Signal::PidAvailable => Resource::Pids,
        }
    }

    pub(super) fn condition(self) -> Condition {
        match self {
            Signal::MemoryAvailable => Condition::Memory,
            Signal::PidAvailable => Condition::Pid,
            _ => Condition::Disk,
        }
    }

    /// Whether throwing away dead containers and images helps.
    pub(super) fn is_disk(self) -> bool {
        self.condition() == Condition::Disk
    }
}

impl Resource {
    pub(super) fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::EphemeralStorage => "ephemeral-storage",
            Resource::Inodes => "inodes",
            Resource::Pids => "pids",
        }
    }
}

impl std::str::FromStr for Signal {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "memory.available" => Signal::MemoryAvailable,
            "nodefs.available" => Signal::NodeFsAvailable,
            "nodefs.inodesFree" => Signal::NodeFsInodesFree,
            "imagefs.available" => Signal::ImageFsAvailable,
            "imagefs.inodesFree" => Signal::ImageFsInodesFree,
            "pid.available" => Signal::PidAvailable,
            _ => return Err(format!("unknown eviction signal {name}")),
        })
    }
}
