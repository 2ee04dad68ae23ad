//! `cargo xtask golden`: recorded upstream requests, played against k3.
//!
//! There is no server to play them against yet; until there is, this says so and whether the recordings
//! are there. Nothing counts as passed that was not played.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{Outcome, counts::Counts, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    if count(workspace).failed == 0 {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

pub(crate) fn count(workspace: &Workspace) -> Counts {
    let folder =
        env::var_os("K3_GOLDEN").map_or_else(|| workspace.root().join("../shared/golden"), PathBuf::from);
    let is_required = env::var_os("K3_REQUIRE_GOLDEN").is_some_and(|value| value == "1");
    let (line, counts) = assess(&folder, is_required);
    println!("golden: {line}");
    counts
}

fn assess(folder: &Path, is_required: bool) -> (&'static str, Counts) {
    if folder.join("cases").is_dir() {
        (
            "recordings found, but k3 has no server to play them against yet; nothing played",
            Counts::default(),
        )
    } else if is_required {
        (
            "no recordings (K3_GOLDEN), and K3_REQUIRE_GOLDEN=1 asks for them",
            Counts::of(Outcome::Failed),
        )
    } else {
        (
            "left out, no recordings here (K3_GOLDEN names their folder)",
            Counts::default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn absent_recordings_fail_only_where_they_are_required() {
        let absent = Path::new("no-such-folder");
        assert_eq!(assess(absent, false).1, Counts::default());
        assert_eq!(assess(absent, true).1.failed, 1);
    }

    #[test]
    fn recordings_that_were_not_played_do_not_count() {
        let folder = env::temp_dir().join(format!("k3-golden-{}", std::process::id()));
        fs::create_dir_all(folder.join("cases")).unwrap();
        assert_eq!(assess(&folder, true).1, Counts::default());
        fs::remove_dir_all(&folder).unwrap();
    }
}
