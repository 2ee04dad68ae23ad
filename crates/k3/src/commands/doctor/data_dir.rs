//! Checks of the data directory and its disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process,
    time::Duration,
};

use tokio::time::Instant;

use super::check::DoctorCheck;
use crate::progress::size;

const DIRECTORY: &str = "data directory";
const SPACE: &str = "free space";
const DISK: &str = "disk";

/// With less, databases cannot be compacted.
const MIN_SPACE: u64 = 100 << 20;
const ENOUGH_SPACE: u64 = 1 << 30;
/// Limits for a durable write. A write to the API takes at least as long.
const QUICK: Duration = Duration::from_millis(25);
const SLOW: Duration = Duration::from_millis(250);
/// How many writes are timed.
const WRITES: usize = 9;

pub(super) fn checks(directory: &Path) -> Vec<DoctorCheck> {
    let shown = directory.display();
    let metadata = match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            let advice = "remove it, or choose another with --data-dir";
            return vec![DoctorCheck::fail(
                DIRECTORY,
                format!("{shown} is not a directory"),
                advice,
            )];
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let advice = "`k3 start` creates it; name another with --data-dir";
            return vec![DoctorCheck::warn(
                DIRECTORY,
                format!("{shown} does not exist"),
                advice,
            )];
        }
        Err(error) => {
            let advice = "run this as the user of the server";
            return vec![DoctorCheck::fail(
                DIRECTORY,
                format!("{shown} cannot be read: {error}"),
                advice,
            )];
        }
    };
    let mut checks = vec![permissions(directory, &metadata)];
    checks.push(space(directory));
    checks.push(match timed(directory) {
        Err(error) => DoctorCheck::fail(
            DISK,
            format!("{shown} is not writable: {error}"),
            "run this as the user of the server; check the owner of the directory, and whether the disk is mounted read-only",
        ),
        Ok(took) => disk(took),
    });
    checks
}

fn permissions(directory: &Path, metadata: &fs::Metadata) -> DoctorCheck {
    let shown = directory.display();
    let mode = metadata.permissions().mode() & 0o777;
    let me = rustix::process::geteuid().as_raw();
    if metadata.uid() != me && me != 0 {
        let found = format!("{shown} belongs to user {}, and you are {me}", metadata.uid());
        return DoctorCheck::fail(
            DIRECTORY,
            found,
            "run this as that user, or choose another directory with --data-dir",
        );
    }
    if mode & 0o077 != 0 {
        let found = format!(
            "{shown} is accessible to other users (mode {mode:o}); the key files in it are protected"
        );
        return DoctorCheck::warn(DIRECTORY, found, format!("chmod 700 {shown}"));
    }
    DoctorCheck::ok(DIRECTORY, format!("{shown} is accessible to its owner only"))
}

fn space(directory: &Path) -> DoctorCheck {
    let free = match rustix::fs::statvfs(directory) {
        Ok(facts) => facts.f_bavail.saturating_mul(facts.f_frsize),
        Err(error) => return DoctorCheck::warn(SPACE, format!("unknown: {error}"), "check `df`"),
    };
    let found = format!("{} in {}", size(free), directory.display());
    let advice = "free disk space: writes fail when there is none";
    if free < MIN_SPACE {
        DoctorCheck::fail(SPACE, found, advice)
    } else if free < ENOUGH_SPACE {
        DoctorCheck::warn(SPACE, found, advice)
    } else {
        DoctorCheck::ok(SPACE, found)
    }
}

/// Median time of a small durable write.
fn timed(directory: &Path) -> io::Result<Duration> {
    let path = directory.join(format!(".doctor.{}", process::id()));
    let measured = (|| {
        let mut file = File::create(&path)?;
        let mut times = Vec::with_capacity(WRITES);
        for _ in 0..WRITES {
            let begun = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[WRITES / 2])
    })();
    // Best effort: it is a few kilobytes.
    let _ = fs::remove_file(&path);
    measured
}

fn disk(took: Duration) -> DoctorCheck {
    let found = format!("a durable write takes {:.1} ms", took.as_secs_f64() * 1000.0);
    let advice = "API writes take at least as long: use another disk, or --file-durability relaxed if data may be lost";
    if took > SLOW {
        DoctorCheck::fail(DISK, found, advice)
    } else if took > QUICK {
        DoctorCheck::warn(DISK, found, advice)
    } else {
        DoctorCheck::ok(DISK, found)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::CheckStatus, *};

    #[test]
    fn warns_about_a_directory_that_others_can_access() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let checks = checks(directory.path());
        assert_eq!(checks.len(), 3, "{checks:?}");
        assert_eq!(checks[0].status, CheckStatus::Ok, "{checks:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let checks = super::checks(directory.path());
        assert_eq!(checks[0].status, CheckStatus::Warn, "{checks:?}");
        assert!(checks[0].advice.as_ref().unwrap().starts_with("chmod 700"));
    }

    #[test]
    fn fails_for_a_file_and_warns_for_a_missing_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(checks(&file)[0].status, CheckStatus::Fail);
        assert_eq!(
            checks(&directory.path().join("none"))[0].status,
            CheckStatus::Warn
        );
    }

    #[test]
    fn warns_about_a_slow_disk() {
        assert_eq!(disk(Duration::from_millis(1)).status, CheckStatus::Ok);
        assert_eq!(disk(Duration::from_millis(40)).status, CheckStatus::Warn);
        assert_eq!(disk(Duration::from_secs(1)).status, CheckStatus::Fail);
    }
}
