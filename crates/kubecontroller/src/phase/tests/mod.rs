//! Tests of state machines.

mod actions;
mod annotations;
mod handlers;
mod limits;
mod random;
mod reconciler;
mod validation;
mod view;

use std::{convert::Infallible, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{Client, CustomResource, client::Body};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::*;
use crate::{Clock, phased};

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Migration",
    namespaced,
    status = "MigrationStatus"
)]
pub(super) struct MigrationSpec {
    pub(super) source: String,
    #[serde(default)]
    pub(super) tables: Vec<Table>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(super) struct Table {
    id: String,
    shard: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(super) struct MigrationStatus {
    #[serde(flatten)]
    pub(super) phases: PhaseStatus,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

phased!(Migration);

/// What the handlers did, in order.
#[derive(Clone, Default)]
pub(super) struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    pub(super) fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|one| *one == what).count()
    }
}

/// A clock that follows tokio's, which the tests pause.
pub(super) fn clock() -> Clock {
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    let began = Instant::now();
    Clock::new(move || start + began.elapsed())
}

/// An environment whose server answers every request with 404.
pub(super) fn environment() -> MachineEnvironment {
    let nothing = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::builder().status(404).body(Body::empty()).unwrap())
    });
    MachineEnvironment::new(Client::new(nothing, "default")).clock(clock())
}

pub(super) fn migration() -> Migration {
    let mut migration = Migration::new("m", MigrationSpec::default());
    migration.metadata.namespace = Some("default".to_owned());
    migration
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A handler that returns the given results, one per run; the last one repeats.
pub(super) fn script<const N: usize>(
    log: &CallLog,
    name: &'static str,
    results: [fn() -> StepResult<Migration>; N],
) -> PhaseHandler<Migration> {
    let log = log.clone();
    let at = Arc::new(Mutex::new(0));
    let run = move |_: HandlerContext<Migration>| {
        log.add(name);
        let mut at = at.lock();
        let result = results[*at];
        *at = (*at + 1).min(N - 1);
        async move { result() }
    };
    function(run).named(name)
}

#[expect(clippy::unnecessary_wraps, reason = "handlers return a StepResult")]
pub(super) fn done() -> StepResult<Migration> {
    Ok(Step::done())
}

#[expect(clippy::unnecessary_wraps, reason = "handlers return a StepResult")]
pub(super) fn not_yet() -> StepResult<Migration> {
    Ok(Step::not_yet())
}

pub(super) fn retry() -> StepResult<Migration> {
    Err(PhaseError::retry("later"))
}

pub(super) fn fatal() -> StepResult<Migration> {
    Err(PhaseError::fatal("broken"))
}

/// A machine with the phases `Precheck` and `Run`, and an error phase for each.
pub(super) fn two(
    precheck: PhaseHandler<Migration>,
    run: PhaseHandler<Migration>,
) -> StateMachineBuilder<Migration> {
    StateMachine::builder("move")
        .phase("Precheck", Phase::run(precheck).then("Run").on_error("PreFailed"))
        .phase("Run", Phase::run(run).then("Succeeded").on_error("Failed"))
        .succeeded("Succeeded")
        .failed("PreFailed")
        .failed("Failed")
}

/// A machine with one phase.
pub(super) fn one(handler: PhaseHandler<Migration>) -> StateMachine<Migration> {
    one_with(Phase::run(handler))
}

pub(super) fn one_with(phase: Phase<Migration>) -> StateMachine<Migration> {
    let machine = StateMachine::builder("move").phase("Run", phase.then("Succeeded").on_error("Failed"));
    machine.succeeded("Succeeded").failed("Failed").build_unchecked()
}

pub(super) async fn pass(
    machine: &StateMachine<Migration>,
    environment: &MachineEnvironment,
    object: &mut Migration,
) -> PassResult<Migration> {
    let pass = machine.pass(environment, object).await.unwrap();
    // The round trip through JSON proves that all state is in the object.
    *object = serde_json::from_value(serde_json::to_value(&pass.object).unwrap()).unwrap();
    pass
}

/// Runs passes, with the requested waits, until the machine stops; returns the waits.
pub(super) async fn drive(
    machine: &StateMachine<Migration>,
    environment: &MachineEnvironment,
    object: &mut Migration,
) -> Vec<Duration> {
    let mut waits = Vec::new();
    while let NextPass::After(wait) = pass(machine, environment, object).await.then {
        tokio::time::sleep(wait).await;
        waits.push(wait);
        assert!(waits.len() < 200, "{object:?}");
    }
    waits
}

pub(super) fn state(object: &Migration, path: &[&str]) -> HandlerState {
    let mut state = object.phases().unwrap().state[path[0]].clone();
    for name in &path[1..] {
        state = state.state[*name].clone();
    }
    state
}

pub(super) fn reason_of(object: &Migration) -> String {
    object
        .phases()
        .and_then(|status| status.reason.clone())
        .unwrap_or_default()
}
