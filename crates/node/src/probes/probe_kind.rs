//! What a kind of probe implements.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{
    ProbeAttempt,
    prober::{ProbeError, ProbeTarget},
};
use crate::runtime::Runtime;

/// A kind of probe: one field of the `ProbeHandler` of the API, such as `exec` or `httpGet`.
pub(super) trait ProbeKind: Sync {
    /// Probes the target once; `None` if its probe is of another kind. An error means that the probe could not run, which is neither
    /// success nor failure.
    fn probe<'a>(&self, context: ProbeContext<'a>) -> Option<ProbeFuture<'a>>;
}

/// A probe that runs.
pub(super) type ProbeFuture<'a> = BoxFuture<'a, Result<ProbeAttempt, ProbeError>>;

/// What a probe is run with.
#[derive(Clone, Copy)]
pub(super) struct ProbeContext<'a> {
    pub(super) target: &'a ProbeTarget,
    /// `None` while no container runtime is reachable.
    pub(super) runtime: Option<&'a dyn Runtime>,
    /// Timeout of the probe.
    pub(super) limit: Duration,
}
