//! The machine.

use std::time::Duration;

use kubecontroller::phase::{
    Context, Machine, MachineErrors, Phase, PhaseError, Step, StepResult, function, parallel,
};

use crate::{InstanceStatus, RedisMigration};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a migration takes. Default: 30 s.
    pub wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            wait: Duration::from_secs(30),
        }
    }
}

/// `Init`, then `Migrate`, then `Success`; or `Fail`, whatever goes wrong.
pub fn machine() -> Result<Machine<RedisMigration>, MachineErrors> {
    let init = parallel([
        function(source).desc("find the source"),
        function(dest).desc("find the destination"),
    ]);
    Machine::builder("redismigration")
        .phase(
            "Init",
            Phase::run(init)
                .desc("look up both ends")
                .then("Migrate")
                .on_error("Fail"),
        )
        .phase(
            "Migrate",
            Phase::run(function(migrate))
                .desc("move the data")
                .then("Success")
                .on_error("MigrateFail"),
        )
        .succeeded("Success")
        .failed("Fail")
        .failed("MigrateFail")
        .defer(Duration::from_secs(1))
        .build()
}

async fn source(context: Context<RedisMigration>) -> StepResult<RedisMigration> {
    let found = instance("source", &context.resource().spec.source)?;
    Ok(Step::done().change(move |migration: &mut RedisMigration| {
        migration.status.get_or_insert_default().source_status = Some(found.clone());
    }))
}

async fn dest(context: Context<RedisMigration>) -> StepResult<RedisMigration> {
    let found = instance("dest", &context.resource().spec.dest)?;
    Ok(Step::done().change(move |migration: &mut RedisMigration| {
        migration.status.get_or_insert_default().dest_status = Some(found.clone());
    }))
}

/// Looks an instance up. A real one would ask whoever runs it.
fn instance(role: &str, id: &str) -> Result<InstanceStatus, PhaseError> {
    if id.is_empty() {
        return Err(PhaseError::fatal(format!("spec.{role} is missing")));
    }
    Ok(InstanceStatus {
        id: id.to_owned(),
        name: id.to_uppercase(),
    })
}

/// Moves the data. A real one would look how far it is; this one looks at the clock.
async fn migrate(context: Context<RedisMigration>) -> StepResult<RedisMigration> {
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
