//! Brings the file to the format this program writes.

use redb::{ReadableDatabase, WriteTransaction};

use super::{
    engine::{Engine, EngineError, FILE, Open, guarded},
    tables::{LOG, StoreMeta},
};
use crate::{
    OpenError,
    format::{self, MigrationPlan},
};

/// What changes the data from one format to the next, within a transaction.
pub(super) type MigrationStep = fn(&WriteTransaction) -> Result<(), EngineError>;

/// From format 1 to 2, from 2 to 3, and so on.
pub(super) const STEPS: &[MigrationStep] = &[];

/// Makes a new file ready, refuses one that is too new, and migrates an old one, of which a copy
/// stays beside it. `complete` adds what an old file misses, in its format.
pub(super) fn run(
    engine: &Engine,
    steps: &[MigrationStep],
    complete: impl FnOnce(&Open) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let open = engine.current()?;
    let explain = |engine_error| OpenError::from(engine.explain(engine_error));
    let found = guarded(|| StoreMeta::format(&open.database.begin_read()?)).map_err(explain)?;
    match format::plan_migration(&engine.directory.location(), found, steps)? {
        MigrationPlan::Current => complete(&open),
        MigrationPlan::Fresh => {
            guarded(|| create(&open, format::newest(steps))).map_err(explain)?;
            complete(&open)
        }
        MigrationPlan::Migrate { from, steps } => {
            complete(&open)?;
            let backup = format!("{FILE}.format-{from}");
            let io = |error| explain(EngineError::Engine(redb::Error::Io(error)));
            engine.directory.copy(FILE, &backup).map_err(io)?;
            tracing::info!("migrating the store from format {from}; {backup} keeps it as it was");
            for (step, to) in steps.iter().zip(from + 1..) {
                guarded(|| migrate(&open, *step, to)).map_err(explain)?;
            }
            Ok(())
        }
    }
}

fn create(open: &Open, format: u32) -> Result<(), EngineError> {
    let txn = open.database.begin_write()?;
    txn.open_table(LOG)?;
    StoreMeta::new(format).write(&txn)?;
    Ok(txn.commit()?)
}

/// Takes a step and notes it, in one transaction: a crash neither repeats nor skips it.
fn migrate(open: &Open, step: MigrationStep, to: u32) -> Result<(), EngineError> {
    let txn = open.database.begin_write()?;
    step(&txn)?;
    StoreMeta {
        format: to,
        ..StoreMeta::pending(&txn)?
    }
    .write(&txn)?;
    Ok(txn.commit()?)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Revision, StoreError,
        file::{FileOptions, directory::FsDirectory},
    };

    /// A step that leaves a trace: it moves the compacted revision ten times as far, plus one.
    fn leave_a_trace(txn: &WriteTransaction) -> Result<(), EngineError> {
        let meta = StoreMeta::pending(txn)?;
        StoreMeta {
            compacted: Revision::new(meta.compacted.get() * 10 + 1),
            ..meta
        }
        .write(txn)
    }

    fn fail(txn: &WriteTransaction) -> Result<(), EngineError> {
        leave_a_trace(txn)?;
        Err(StoreError::Corrupt("no".to_owned()).into())
    }

    /// There is nothing to add.
    #[expect(clippy::unnecessary_wraps, reason = "what `run` takes")]
    fn complete(_: &Open) -> Result<(), OpenError> {
        Ok(())
    }

    fn state(database: &redb::Database) -> (u32, u64) {
        let meta = StoreMeta::read(&database.begin_read().unwrap()).unwrap();
        (meta.format, meta.compacted.get())
    }

    /// An engine on a directory with a store of format 1.
    fn old_store() -> (tempfile::TempDir, Engine) {
        let directory = tempfile::tempdir().unwrap();
        let locked = Arc::new(FsDirectory::lock(directory.path()).unwrap());
        let engine = Engine::open(locked, &FileOptions::new(directory.path())).unwrap();
        run(&engine, &[], complete).unwrap();
        (directory, engine)
    }

    #[test]
    fn migrates_an_old_store_through_every_step_once_and_keeps_a_backup() {
        let (directory, engine) = old_store();
        let open = engine.current().unwrap();
        assert_eq!(state(&open.database), (1, 1));
        run(&engine, &[leave_a_trace], complete).unwrap();
        assert_eq!(state(&open.database), (2, 11));
        run(&engine, &[leave_a_trace, leave_a_trace, leave_a_trace], complete).unwrap();
        assert_eq!(state(&open.database), (4, 1111));
        let backup = redb::Database::open(directory.path().join("store.redb.format-1")).unwrap();
        assert_eq!(state(&backup), (1, 1));
    }

    #[test]
    fn an_old_store_is_completed_before_it_is_copied_and_migrated() {
        let (directory, engine) = old_store();
        let complete = |open: &Open| {
            let explain = |engine_error| OpenError::from(engine.explain(engine_error));
            guarded(|| {
                let txn = open.database.begin_write()?;
                leave_a_trace(&txn)?;
                Ok(txn.commit()?)
            })
            .map_err(explain)
        };
        run(&engine, &[leave_a_trace], complete).unwrap();
        assert_eq!(state(&engine.current().unwrap().database), (2, 111));
        let backup = redb::Database::open(directory.path().join("store.redb.format-1")).unwrap();
        assert_eq!(state(&backup), (1, 11));
    }

    #[test]
    fn a_failed_migration_step_is_rolled_back_and_retried() {
        let (_directory, engine) = old_store();
        let open = engine.current().unwrap();
        run(&engine, &[leave_a_trace, fail], complete).unwrap_err();
        assert_eq!(state(&open.database), (2, 11));
        run(&engine, &[fail, leave_a_trace], complete).unwrap();
        assert_eq!(state(&open.database), (3, 111));
    }

    #[test]
    fn rejects_a_newer_store_without_changing_it() {
        let (_directory, engine) = old_store();
        run(&engine, &[leave_a_trace], complete).unwrap();
        let error = run(&engine, &[], complete).unwrap_err();
        assert!(
            matches!(
                error,
                OpenError::NewerFormat {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(state(&engine.current().unwrap().database), (2, 11));
    }

    /// Set for the process that migrates until it is killed: the directory of the store.
    const VICTIM: &str = "K3_TEST_MIGRATION_VICTIM";
    /// The victim's progress file, in its directory.
    const BEGUN: &str = "begun";
    /// Set for a victim that waits in its first step until it is killed.
    const STUCK: &str = "K3_TEST_MIGRATION_STUCK";

    #[expect(
        clippy::disallowed_methods,
        reason = "there is no runtime in this test: two processes race"
    )]
    fn pause(milliseconds: u64) {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }

    /// Reports to the test that a step has changed something, and waits to be killed. Should the test be killed itself,
    /// this does not wait for ever.
    fn wait_to_be_killed() {
        let directory = std::env::var_os(VICTIM).unwrap();
        std::fs::write(Path::new(&directory).join(BEGUN), "").unwrap();
        for _ in 0..6000 {
            pause(100);
        }
        panic!("the test did not kill this process");
    }

    /// A step that takes long enough to be killed in, before it changes something and after.
    fn leave_a_trace_slowly(txn: &WriteTransaction) -> Result<(), EngineError> {
        pause(3);
        leave_a_trace(txn)?;
        let mut log = txn.open_table(LOG)?;
        for number in 0..200 {
            log.insert(1_000_000 + number, &[7_u8; 1000][..])?;
        }
        drop(log);
        if std::env::var_os(STUCK).is_some() {
            wait_to_be_killed();
        }
        pause(3);
        Ok(())
    }

    const SLOW_STEPS: [MigrationStep; 4] = [leave_a_trace_slowly; 4];

    fn engine_at(directory: &Path) -> Engine {
        let locked = Arc::new(FsDirectory::lock(directory).unwrap());
        Engine::open(locked, &FileOptions::new(directory)).unwrap()
    }

    /// Not a test of its own: what the test below runs in another process.
    #[test]
    fn migration_victim() {
        let Some(directory) = std::env::var_os(VICTIM) else {
            return;
        };
        let directory = Path::new(&directory);
        let engine = engine_at(directory);
        if std::env::var_os(STUCK).is_none() {
            std::fs::write(directory.join(BEGUN), "").unwrap();
        }
        run(&engine, &SLOW_STEPS, complete).unwrap();
    }

    #[test]
    fn a_killed_migration_continues_without_repeating_steps() {
        let (directory, engine) = old_store();
        drop(engine);
        let program = std::env::current_exe().unwrap();
        // The first process is killed in its first step. Each of the others is killed a little later than the one before,
        // at whatever stage that is, until one is not killed any more.
        for kills in 0.. {
            let is_first = kills == 0;
            let mut victim = std::process::Command::new(&program);
            victim
                .args(["--exact", "file::migration::tests::migration_victim"])
                .env(VICTIM, directory.path())
                .stdout(std::process::Stdio::null());
            if is_first {
                victim.env(STUCK, "");
            }
            let mut victim = victim.spawn().unwrap();
            let begun = directory.path().join(BEGUN);
            while !begun.exists() && victim.try_wait().unwrap().is_none() {
                pause(1);
            }
            pause(kills);
            victim.kill().unwrap();
            let ended = victim.wait().unwrap();
            std::fs::remove_file(&begun).unwrap();
            // Whatever it had done, each step it had taken was taken once and whole.
            let engine = engine_at(directory.path());
            let (format, trace) = state(&engine.current().unwrap().database);
            let once_each: u64 = "1".repeat(format as usize).parse().unwrap();
            assert_eq!(trace, once_each, "after {kills} kills");
            if is_first {
                assert_eq!((ended.success(), format), (false, 1), "{ended}");
            }
            if ended.success() {
                assert_eq!(format, 5);
                break;
            }
        }
        let backup = directory.path().join("store.redb.format-1");
        assert_eq!(state(&redb::Database::open(backup).unwrap()), (1, 1));
    }
}
