//! What can be chosen on the command line.

/// A container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeName {
    Docker,
    Podman,
    Containerd,
}

/// A figure of the node agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodePart {
    /// Pods one after the other.
    Start,
    /// Pods all at once.
    Rate,
    /// Pods that only run.
    Idle,
    /// An agent that is killed.
    Crash,
}

/// What holds objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A vector, and nothing else: what the objects themselves weigh.
    Vector,
    /// kube's reflector.
    Reflector,
    /// An informer of all there is to a pod.
    Typed,
    /// An informer of two fields.
    Slim,
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchEffort {
    Quick,
    Full,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    File,
    Etcd,
    Mysql,
}

// --- Holder ---

impl Holder {
    pub(crate) const ALL: [Self; 4] = [Self::Vector, Self::Reflector, Self::Typed, Self::Slim];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Reflector => "reflector",
            Self::Typed => "typed",
            Self::Slim => "slim",
        }
    }
}

// --- Backend ---

impl Backend {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::File, Self::Etcd, Self::Mysql];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Mysql => "mysql",
        }
    }
}

// --- RuntimeName ---

impl RuntimeName {
    pub(crate) const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Containerd];

    /// What it calls itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
        }
    }
}

// --- NodePart ---

impl NodePart {
    pub(crate) const ALL: [Self; 4] = [Self::Start, Self::Rate, Self::Idle, Self::Crash];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Rate => "rate",
            Self::Idle => "idle",
            Self::Crash => "crash",
        }
    }
}

// --- BenchEffort ---

impl BenchEffort {
    /// A time or a number, or a tenth of it.
    pub(crate) fn of<T: std::ops::Div<u32, Output = T>>(self, full: T) -> T {
        match self {
            Self::Quick => full / 10,
            Self::Full => full,
        }
    }
}
