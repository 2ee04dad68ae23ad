//! The CronJob controller: creates Jobs on a schedule.
//!
//! ```text
//! schedule    due and missed times
//! decision    what to do now
//! controller  the reconciler
//! ```

mod controller;
mod decision;
mod schedule;
#[cfg(test)]
mod tests;

use self::controller::CronJobController;
use crate::{
    context::{ControllerContext, Task},
    objects::{CronJob, Job},
    resource::{CRON_JOBS, JOBS},
};

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go NewControllerV2
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let crons = context.informer::<CronJob>(&CRON_JOBS);
    let jobs = context.informer::<Job>(&JOBS);
    let runner = context
        .controller("cronjob-controller")
        .for_(&crons)
        .owns(&jobs, "batch/CronJob")
        .reconciler(CronJobController::new(context, crons, jobs));
    vec![Box::new(runner)]
}
