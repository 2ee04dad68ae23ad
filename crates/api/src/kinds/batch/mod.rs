//! The kinds of the `batch` group, one file per kind.

mod cron_job;
mod job;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "CronJob" => &cron_job::CronJob,
        "Job" => &job::Job,
        _ => return None,
    })
}
