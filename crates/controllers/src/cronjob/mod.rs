//! Begins jobs at the times that cron jobs name.
//!
//! ```text
//! schedule   when it is time, and when it was
//! plan       what is to be done
//! keeper     does it
//! ```

mod keeper;
mod plan;
mod schedule;
#[cfg(test)]
mod tests;

use self::keeper::Keeper;
use crate::{
    context::{ControllerContext, Task},
    objects::{CronJob, Job},
    resource::{CRON_JOBS, JOBS},
};

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let crons = context.informer::<CronJob>(&CRON_JOBS);
    let jobs = context.informer::<Job>(&JOBS);
    let runner = context
        .controller("cronjob")
        .for_(&crons)
        .owns(&jobs, "batch/CronJob")
        .reconciler(Keeper::new(context, crons, jobs));
    vec![Box::new(runner)]
}
