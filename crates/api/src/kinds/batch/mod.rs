//! The kinds of the `batch` group, one file per kind.

mod cron_job;
mod job;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "CronJob" => &cron_job::CronJob,
        "Job" => &job::Job,
        _ => return None,
    })
}
