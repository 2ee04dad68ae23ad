//! Eviction signals, and the resources they observe.
// upstream: pkg/kubelet/eviction/api/types.go Signal

use std::collections::BTreeMap;

/// An eviction signal. Its name is used in thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvictionSignal {
    /// `memory.available`
    MemoryAvailable,
    /// `nodefs.available`: file system of the data directory.
    NodeFsAvailable,
    /// `nodefs.inodesFree`
    NodeFsInodesFree,
    /// `imagefs.available`: file system of the images.
    ImageFsAvailable,
    /// `imagefs.inodesFree`
    ImageFsInodesFree,
    /// `pid.available`
    PidAvailable,
}

/// No signal has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown eviction signal {0}")]
pub struct UnknownSignalError(String);

/// The resource that a signal observes.
// upstream: pkg/kubelet/eviction/helpers.go init; signalToResource
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EvictionResource {
    Memory,
    EphemeralStorage,
    Inodes,
    Pids,
}

/// Capacity and available amount of a resource.
// upstream: pkg/kubelet/eviction/types.go signalObservation
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SignalObservation {
    pub(super) capacity: u64,
    pub(super) available: u64,
}

/// Observations by signal.
pub(super) type SignalObservations = BTreeMap<EvictionSignal, SignalObservation>;

/// Kind of pressure: `MemoryPressure`, `DiskPressure` or `PIDPressure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PressureKind {
    Memory,
    Disk,
    Pid,
}

impl EvictionSignal {
    pub(super) fn resource(self) -> EvictionResource {
        match self {
            EvictionSignal::MemoryAvailable => EvictionResource::Memory,
            EvictionSignal::NodeFsAvailable | EvictionSignal::ImageFsAvailable => {
                EvictionResource::EphemeralStorage
            }
            EvictionSignal::NodeFsInodesFree | EvictionSignal::ImageFsInodesFree => EvictionResource::Inodes,
            EvictionSignal::PidAvailable => EvictionResource::Pids,
        }
    }

    pub(super) fn pressure_kind(self) -> PressureKind {
        match self {
            EvictionSignal::MemoryAvailable => PressureKind::Memory,
            EvictionSignal::PidAvailable => PressureKind::Pid,
            _ => PressureKind::Disk,
        }
    }

    /// Whether removing unused images may relieve the pressure.
    pub(super) fn is_disk(self) -> bool {
        self.pressure_kind() == PressureKind::Disk
    }
}

impl EvictionResource {
    pub(super) fn name(self) -> &'static str {
        match self {
            EvictionResource::Memory => "memory",
            EvictionResource::EphemeralStorage => "ephemeral-storage",
            EvictionResource::Inodes => "inodes",
            EvictionResource::Pids => "pids",
        }
    }
}

impl std::str::FromStr for EvictionSignal {
    type Err = UnknownSignalError;

    fn from_str(name: &str) -> Result<Self, UnknownSignalError> {
        Ok(match name {
            "memory.available" => EvictionSignal::MemoryAvailable,
            "nodefs.available" => EvictionSignal::NodeFsAvailable,
            "nodefs.inodesFree" => EvictionSignal::NodeFsInodesFree,
            "imagefs.available" => EvictionSignal::ImageFsAvailable,
            "imagefs.inodesFree" => EvictionSignal::ImageFsInodesFree,
            "pid.available" => EvictionSignal::PidAvailable,
            _ => return Err(UnknownSignalError(name.to_owned())),
        })
    }
}
