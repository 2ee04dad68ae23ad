//! Tests of the state machine.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock,
    phase::{MachineEnvironment, NextPass, Phased},
    testing::FakeApi,
};
use redismigration::{RedisMigration, RedisMigrationSpec, Settings, machine};

/// An environment with a clock that the test sets.
fn environment() -> (MachineEnvironment, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(100));
    let seconds = now.clone();
    let clock = Clock::new(move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap());
    let environment = MachineEnvironment::new(FakeApi::new().client())
        .clock(clock)
        .with(Settings::default());
    (environment, now)
}

fn migration(source: &str, dest: &str) -> RedisMigration {
    let spec = RedisMigrationSpec {
        source: source.to_owned(),
        dest: dest.to_owned(),
    };
    RedisMigration::new("m", spec)
}

#[tokio::test]
async fn migration_succeeds_after_wait() {
    let (environment, now) = environment();
    let machine = machine().unwrap();
    let found = machine
        .pass(&environment, &migration("ali-123", "tx-123"))
        .await
        .unwrap()
        .object;
    assert_eq!(found.phase(), "Migrate");
    let status = found.status.clone().unwrap();
    let ends = [status.source_status.unwrap(), status.dest_status.unwrap()];
    assert_eq!(
        ends.map(|end| format!("{} {}", end.id, end.name)),
        ["ali-123 ALI-123", "tx-123 TX-123"]
    );

    let waits = machine.pass(&environment, &found).await.unwrap();
    assert_eq!(
        (waits.object.phase(), waits.then),
        ("Migrate", NextPass::After(Duration::from_secs(30)))
    );
    now.store(129, Ordering::Relaxed);
    let waits = machine.pass(&environment, &waits.object).await.unwrap();
    assert_eq!(
        (waits.object.phase(), waits.then),
        ("Migrate", NextPass::After(Duration::from_secs(1)))
    );
    now.store(130, Ordering::Relaxed);
    let ended = machine.pass(&environment, &waits.object).await.unwrap();
    assert_eq!(
        (ended.object.phase(), machine.is_terminal(&ended.object)),
        ("Success", true)
    );
}

#[tokio::test]
async fn migration_without_destination_fails() {
    let (environment, _) = environment();
    let machine = machine().unwrap();
    let failed = machine
        .pass(&environment, &migration("ali-123", ""))
        .await
        .unwrap()
        .object;
    assert_eq!((failed.phase(), machine.is_failed(&failed)), ("Fail", true));
    assert_eq!(
        machine.failed_reason(&failed).as_deref(),
        Some("spec.dest is missing")
    );
}

#[tokio::test]
async fn failed_migration_can_be_reset_after_fix() {
    let (environment, _) = environment();
    let machine = machine().unwrap();
    let mut failed = machine
        .pass(&environment, &migration("ali-123", ""))
        .await
        .unwrap()
        .object;
    failed.spec.dest = "tx-123".to_owned();
    machine.reset(&mut failed, |_, _| {}).unwrap();
    assert_eq!(
        machine.pass(&environment, &failed).await.unwrap().object.phase(),
        "Migrate"
    );
}
