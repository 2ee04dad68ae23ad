//! The kinds of the `batch` group, a file each.

mod cron_job;
mod job;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "CronJob" => &cron_job::CronJob,
        "Job" => &job::Job,
        _ => return None,
    })
}
