//! Checks which other users can read or replace the keys in a configuration file.

use std::{os::unix::fs::MetadataExt as _, path::Path};

/// The modes that let others do anything with a file.
const OTHERS: u32 = 0o077;

/// Warns if other users have access to a file. The reader reports a missing file.
pub(super) fn warn(path: &Path) {
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let user = rustix::process::geteuid().as_raw();
    if let Some(why) = exposure(metadata.mode() & 0o7777, metadata.uid(), user) {
        tracing::warn!(
            file = %path.display(),
            why,
            "other users have access to the encryption configuration, which has the keys; make it yours, with mode 0600"
        );
    }
}

/// How others have access to a file with this mode and owner, if they have.
fn exposure(mode: u32, owner: u32, user: u32) -> Option<String> {
    if owner != user && owner != 0 {
        return Some(format!("it belongs to user {owner}"));
    }
    (mode & OTHERS != 0).then(|| format!("its mode is {mode:04o}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_this_user_and_root_alone() {
        for (mode, owner) in [(0o600, 7), (0o400, 0), (0o700, 7)] {
            assert_eq!(exposure(mode, owner, 7), None);
        }
        assert_eq!(exposure(0o640, 7, 7).as_deref(), Some("its mode is 0640"));
        assert_eq!(exposure(0o602, 0, 7).as_deref(), Some("its mode is 0602"));
        assert_eq!(exposure(0o600, 8, 7).as_deref(), Some("it belongs to user 8"));
    }
}
