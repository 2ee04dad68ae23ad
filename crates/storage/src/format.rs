//! What to do with data of another format than this program writes.
//!
//! Every durable backend stores the number of its format beside its data, counted from 1, and asks
//! here when it opens. Promises: data of a newer format is refused before anything is changed; older
//! data passes every migration step between its format and the newest, once each and in order. The
//! backend makes its backup before the first step, and stores the new number together with the
//! changes of a step, so that a crash in between repeats no step and skips none.

use crate::{OpenError, StoreError};

/// What a backend has to do before it uses its data. `S` is the backend's own kind of step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MigrationPlan<'a, S> {
    /// There is no data: write it in the newest format.
    Fresh,
    /// The data is of the newest format.
    Current,
    /// The data is older: make a backup, then take these steps.
    Migrate {
        /// The format found, from which the first step starts; each step adds one.
        from: u32,
        /// The steps to take, in order. Never empty.
        steps: &'a [S],
    },
}

/// The format a program with these migration steps writes: the first step leads from format 1 to 2,
/// each further one from where the one before ended. A list of steps can so never disagree with the
/// format it leads to.
pub(crate) const fn newest<S>(steps: &[S]) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a program has a handful of migration steps, written by hand"
    )]
    let steps = steps.len() as u32;
    1 + steps
}

/// Decides what to do with data of format `found`; `None` when there is no data yet. `location` reports
/// where the data is, for the message.
pub(crate) fn plan_migration<'a, S>(
    location: &str,
    found: Option<u32>,
    steps: &'a [S],
) -> Result<MigrationPlan<'a, S>, OpenError> {
    let known = newest(steps);
    match found {
        None => Ok(MigrationPlan::Fresh),
        // No program ever wrote it. Taken for "old", damage would be migrated into nonsense.
        Some(0) => {
            Err(StoreError::Corrupt(format!("{location} has format 0, which no version writes")).into())
        }
        Some(found) if found > known => Err(OpenError::NewerFormat {
            location: location.to_owned(),
            found,
            known,
        }),
        Some(found) if found == known => Ok(MigrationPlan::Current),
        Some(from) => Ok(MigrationPlan::Migrate {
            from,
            steps: &steps[(from - 1) as usize..],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a program that writes format 4.
    const STEPS: &[&str] = &["1 to 2", "2 to 3", "3 to 4"];

    #[test]
    fn a_program_without_steps_writes_format_1() {
        assert_eq!(newest::<&str>(&[]), 1);
        assert_eq!(newest(STEPS), 4);
        assert_eq!(
            plan_migration::<&str>("x", Some(1), &[]).unwrap(),
            MigrationPlan::Current
        );
    }

    #[test]
    fn creates_the_newest_format_in_an_empty_store() {
        assert_eq!(plan_migration("x", None, STEPS).unwrap(), MigrationPlan::Fresh);
    }

    #[test]
    fn uses_data_of_the_newest_format_unchanged() {
        assert_eq!(
            plan_migration("x", Some(4), STEPS).unwrap(),
            MigrationPlan::Current
        );
    }

    #[test]
    fn older_data_takes_exactly_the_steps_it_lacks() {
        for (from, steps) in [(1, &STEPS[0..]), (2, &STEPS[1..]), (3, &STEPS[2..])] {
            assert_eq!(
                plan_migration("x", Some(from), STEPS).unwrap(),
                MigrationPlan::Migrate { from, steps }
            );
        }
    }

    #[test]
    fn rejects_newer_data_with_a_hint() {
        for found in [5, u32::MAX] {
            let error = plan_migration("the directory data", Some(found), STEPS).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the directory data has data of format {found}, this program reads up to 4; use a newer k3 than {}, \
                     or restore a snapshot that was saved before the upgrade",
                    env!("CARGO_PKG_VERSION")
                )
            );
        }
    }

    #[test]
    fn rejects_format_zero_as_damage() {
        let error = plan_migration("the directory data", Some(0), STEPS).unwrap_err();
        assert!(
            matches!(error, OpenError::Store(StoreError::Corrupt(_))),
            "{error}"
        );
    }
}
