//! Where data and results go.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::BenchError;

/// An empty directory, on a disk: in `parent`, or beside the program.
pub(crate) fn data_directory(parent: Option<&Path>) -> Result<PathBuf, BenchError> {
    let parent = match parent {
        Some(parent) => parent.to_owned(),
        None => own_directory()?,
    };
    let dir = parent.join(format!("k3-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The directory that this program is in.
pub(crate) fn own_directory() -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe()?;
    Ok(program
        .parent()
        .ok_or("the program is in no directory")?
        .to_owned())
}

/// The file for the results: by default beside the benchmark's source when cargo runs it, else below the
/// working directory.
pub(crate) fn results(chosen: Option<&Path>, default: &str) -> PathBuf {
    chosen.map_or_else(
        || {
            let bench = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "bench".into(), PathBuf::from);
            bench.join("results").join(default)
        },
        Path::to_owned,
    )
}

/// Writes a report and prints its path.
pub(crate) fn write(report: &impl Serialize, file: &Path) -> Result<(), BenchError> {
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(file, serde_json::to_string_pretty(report)? + "\n")?;
    println!("\nwritten to {}", file.display());
    Ok(())
}
