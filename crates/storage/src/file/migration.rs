//! Brings the file to the format this program writes.

use redb::{ReadableDatabase, WriteTransaction};

use super::{
    engine::{Engine, FILE, Fault, Open, guarded},
    tables::{self, FORMAT, META},
};
use crate::{
    OpenError,
    format::{self, Plan},
};

/// What changes the data from one format to the next, within a transaction.
pub(super) type Step = fn(&WriteTransaction) -> Result<(), Fault>;

/// From format 1 to 2, from 2 to 3, and so on.
pub(super) const STEPS: &[Step] = &[];

/// Makes a new file ready, refuses one that is too new, and migrates an old one, of which a copy
/// stays beside it.
pub(super) fn run(engine: &Engine, steps: &[Step]) -> Result<(), OpenError> {
    let open = engine.current()?;
    let explain = |fault| OpenError::from(engine.explain(fault));
    let found = guarded(|| Ok(tables::meta(&open.database.begin_read()?, FORMAT)?)).map_err(explain)?;
    let found = found.map(|format| u32::try_from(format).unwrap_or(u32::MAX));
    match format::plan(&engine.volume.place(), found, steps)? {
        Plan::Current => Ok(()),
        Plan::Fresh => guarded(|| create(&open, format::newest(steps))).map_err(explain),
        Plan::Migrate { from, steps } => {
            let backup = format!("{FILE}.format-{from}");
            let io = |error| explain(Fault::Engine(redb::Error::Io(error)));
            engine.volume.copy(FILE, &backup).map_err(io)?;
            tracing::info!("migrating the store from format {from}; {backup} keeps it as it was");
            for (step, to) in steps.iter().zip(from + 1..) {
                guarded(|| migrate(&open, *step, to)).map_err(explain)?;
            }
            Ok(())
        }
    }
}

fn create(open: &Open, format: u32) -> Result<(), Fault> {
    let txn = open.database.begin_write()?;
    tables::create(&txn, format)?;
    Ok(txn.commit()?)
}

/// Takes a step and notes it, in one transaction: a crash neither repeats nor skips it.
fn migrate(open: &Open, step: Step, to: u32) -> Result<(), Fault> {
    let txn = open.database.begin_write()?;
    step(&txn)?;
    txn.open_table(META)?.insert(FORMAT, u64::from(to))?;
    Ok(txn.commit()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        StoreError,
        file::{FileOptions, volume::Folder},
    };

    fn add_a_number(txn: &WriteTransaction) -> Result<(), Fault> {
        let mut meta = txn.open_table(META)?;
        let before = meta.remove("steps")?.map_or(0, |number| number.value());
        meta.insert("steps", before * 10 + 1)?;
        Ok(())
    }

    fn fail(_: &WriteTransaction) -> Result<(), Fault> {
        Err(StoreError::Corrupt("no".to_owned()).into())
    }

    fn number(engine: &Engine, name: &str) -> Option<u64> {
        let open = engine.current().unwrap();
        tables::meta(&open.database.begin_read().unwrap(), name).unwrap()
    }

    /// An engine on a folder with a store of format 1.
    fn old_store() -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let volume = Arc::new(Folder::claim(folder.path()).unwrap());
        let engine = Engine::open(volume, &FileOptions::new(folder.path())).unwrap();
        run(&engine, &[]).unwrap();
        (folder, engine)
    }

    #[test]
    fn an_old_store_goes_through_every_step_once_and_a_backup_stays() {
        let (folder, engine) = old_store();
        assert_eq!(number(&engine, FORMAT), Some(1));
        run(&engine, &[add_a_number]).unwrap();
        run(&engine, &[add_a_number, add_a_number, add_a_number]).unwrap();
        assert_eq!(number(&engine, FORMAT), Some(4));
        assert_eq!(number(&engine, "steps"), Some(111));
        let backup = redb::Database::open(folder.path().join("store.redb.format-1")).unwrap();
        assert_eq!(
            tables::meta(&backup.begin_read().unwrap(), FORMAT).unwrap(),
            Some(1)
        );
        assert_eq!(
            tables::meta(&backup.begin_read().unwrap(), "steps").unwrap(),
            None
        );
    }

    #[test]
    fn a_failed_step_changes_nothing_and_is_taken_again() {
        let (_folder, engine) = old_store();
        run(&engine, &[add_a_number, fail]).unwrap_err();
        assert_eq!(number(&engine, FORMAT), Some(2));
        run(&engine, &[fail, add_a_number]).unwrap();
        assert_eq!(number(&engine, "steps"), Some(11));
    }

    #[test]
    fn a_newer_store_is_refused_and_not_touched() {
        let (_folder, engine) = old_store();
        run(&engine, &[add_a_number]).unwrap();
        let error = run(&engine, &[]).unwrap_err();
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
        assert_eq!(number(&engine, FORMAT), Some(2));
    }
}
