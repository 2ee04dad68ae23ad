//! What the machine promises, claim by claim.

mod actions;
mod annotations;
mod handlers;
mod limits;
mod random;
mod reconciler;
mod validation;
mod view;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kube::{Client, CustomResource, client::Body};
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

/// What handlers did, in order.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|one| *one == what).count()
    }
}

/// A clock that goes with tokio's, which the tests pause.
pub(super) fn clock() -> Clock {
    let (start, began) = (Timestamp::from_second(1_800_000_000).unwrap(), Instant::now());
    Clock::new(move || start + began.elapsed())
}

/// A environment whose server knows nothing.
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

/// A handler that answers the given things, one per run, the last of them for ever.
pub(super) fn script<const N: usize>(
    log: &Log,
    name: &'static str,
    answers: [fn() -> StepResult<Migration>; N],
) -> Handler<Migration> {
    let (log, at) = (log.clone(), Arc::new(Mutex::new(0)));
    let run = move |_: Context<Migration>| {
        log.add(name);
        let mut at = at.lock().unwrap();
        let answer = answers[*at];
        *at = (*at + 1).min(N - 1);
        async move { answer() }
    };
    function(run).named(name)
}

#[expect(clippy::unnecessary_wraps, reason = "this is what handlers answer")]
pub(super) fn done() -> StepResult<Migration> {
    Ok(Step::done())
}

#[expect(clippy::unnecessary_wraps, reason = "this is what handlers answer")]
pub(super) fn not_yet() -> StepResult<Migration> {
    Ok(Step::not_yet())
}

pub(super) fn retry() -> StepResult<Migration> {
    Err(PhaseError::retry("later"))
}

pub(super) fn fatal() -> StepResult<Migration> {
    Err(PhaseError::fatal("broken"))
}

/// Precheck, run, and an end for each outcome.
pub(super) fn two(precheck: Handler<Migration>, run: Handler<Migration>) -> Builder<Migration> {
    Machine::builder("move")
        .phase("Precheck", Phase::run(precheck).then("Run").on_error("PreFailed"))
        .phase("Run", Phase::run(run).then("Succeeded").on_error("Failed"))
        .succeeded("Succeeded")
        .failed("PreFailed")
        .failed("Failed")
}

/// One phase with that handler.
pub(super) fn one(handler: Handler<Migration>) -> Machine<Migration> {
    one_with(Phase::run(handler))
}

pub(super) fn one_with(phase: Phase<Migration>) -> Machine<Migration> {
    let machine = Machine::builder("move").phase("Run", phase.then("Succeeded").on_error("Failed"));
    machine.succeeded("Succeeded").failed("Failed").build_unchecked()
}

pub(super) async fn pass(
    machine: &Machine<Migration>,
    environment: &MachineEnvironment,
    object: &mut Migration,
) -> Pass<Migration> {
    let pass = machine.pass(environment, object).await.unwrap();
    // What is not in the JSON is not remembered.
    *object = serde_json::from_value(serde_json::to_value(&pass.object).unwrap()).unwrap();
    pass
}

/// Passes until there is nothing more to do, waiting as the machine asks; the waits.
pub(super) async fn drive(
    machine: &Machine<Migration>,
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

pub(super) fn state(object: &Migration, path: &[&str]) -> State {
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
