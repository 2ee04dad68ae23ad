//! The state machine.

use std::time::Duration;

use kubecontroller::phase::{
    HandlerContext, Phase, PhaseError, StateMachine, StateMachineValidationError, Step, StepResult, function,
    parallel,
};

use crate::{InstanceStatus, RedisMigration};

/// The settings of the handlers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The duration of a migration. Default: 30 s.
    pub wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            wait: Duration::from_secs(30),
        }
    }
}

/// The phases `Init` and `Migrate`, followed by `Success`, `Fail` or `MigrateFail`.
pub fn machine() -> Result<StateMachine<RedisMigration>, StateMachineValidationError> {
    let init = parallel([
        function(source).desc("look up the source"),
        function(dest).desc("look up the destination"),
    ]);
    StateMachine::builder("redismigration")
        .phase(
            "Init",
            Phase::run(init)
                .desc("look up both instances")
                .then("Migrate")
                .on_error("Fail"),
        )
        .phase(
            "Migrate",
            Phase::run(function(migrate))
                .desc("migrate the data")
                .then("Success")
                .on_error("MigrateFail"),
        )
        .succeeded("Success")
        .failed("Fail")
        .failed("MigrateFail")
        .defer(Duration::from_secs(1))
        .build()
}

async fn source(context: HandlerContext<RedisMigration>) -> StepResult<RedisMigration> {
    let found = instance("source", &context.resource().spec.source)?;
    Ok(Step::done().change(move |migration: &mut RedisMigration| {
        migration.status.get_or_insert_default().source_status = Some(found.clone());
    }))
}

async fn dest(context: HandlerContext<RedisMigration>) -> StepResult<RedisMigration> {
    let found = instance("dest", &context.resource().spec.dest)?;
    Ok(Step::done().change(move |migration: &mut RedisMigration| {
        migration.status.get_or_insert_default().dest_status = Some(found.clone());
    }))
}

/// Looks up an instance. A real operator would query the database service.
fn instance(role: &str, id: &str) -> Result<InstanceStatus, PhaseError> {
    if id.is_empty() {
        return Err(PhaseError::fatal(format!("spec.{role} is missing")));
    }
    Ok(InstanceStatus {
        id: id.to_owned(),
        name: id.to_uppercase(),
    })
}

/// Migrates the data. A real operator would query the progress; this one waits.
async fn migrate(context: HandlerContext<RedisMigration>) -> StepResult<RedisMigration> {
    let wait = context.settings::<Settings>()?.wait;
    let now = context.clock().now();
    let began = context.last().start_time.as_ref().map_or(now, |time| time.0);
    let over = began + wait;
    if now >= over {
        return Ok(Step::done());
    }
    let left = Duration::try_from(over.duration_since(now)).unwrap_or_default();
    Ok(Step::not_yet().after(left))
}
