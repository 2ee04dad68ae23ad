//! `k3 snapshot inspect`: verifies a snapshot and prints a summary.

use std::path::{Path, PathBuf};

use clap::Args;
use k3_storage::transfer::{self, BackupSummary};
use serde_json::json;
use time::{OffsetDateTime, UtcDateTime};
use tokio::{fs::File, io::BufReader};

use crate::{command_error::CommandError, progress};

/// Verify a snapshot, and show what it contains.
#[derive(Debug, Args)]
pub(super) struct InspectFlags {
    /// Snapshot file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

pub(super) async fn run(flags: &InspectFlags) -> Result<(), CommandError> {
    let summary = check(&flags.file).await?;
    let taken = date(&summary);
    if flags.output == "json" {
        let summary = json!({
            "file": flags.file,
            "format": summary.format,
            "revision": summary.revision.get(),
            "taken": taken,
            "objects": summary.transferred.entries,
            "bytes": summary.transferred.bytes,
        });
        print_line!("{summary:#}");
        return Ok(());
    }
    print_line!(
        "{}: valid, format {}, taken {taken}, revision {}, {} objects, {}",
        flags.file.display(),
        summary.format,
        summary.revision,
        summary.transferred.entries,
        progress::size(summary.transferred.bytes)
    );
    Ok(())
}

/// Opens a snapshot for reading.
pub(super) async fn open(file: &Path) -> Result<BufReader<File>, CommandError> {
    let opened = File::open(file).await.map_err(|error| {
        let what = format!("cannot read {}", file.display());
        CommandError::new(what, "name a file that `k3 snapshot save` has written").caused_by(error)
    })?;
    Ok(BufReader::with_capacity(256 * 1024, opened))
}

/// Reads and verifies the whole file.
pub(super) async fn check(file: &Path) -> Result<BackupSummary, CommandError> {
    transfer::inspect(open(file).await?).await.map_err(|error| {
        let what = format!("{} is not a valid snapshot", file.display());
        CommandError::new(what, "use another snapshot; a damaged one cannot be repaired").caused_by(error)
    })
}

/// Formats the time of the snapshot in RFC 3339.
fn date(summary: &BackupSummary) -> String {
    let taken = UtcDateTime::from(OffsetDateTime::from(summary.created_at));
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        taken.year(),
        u8::from(taken.month()),
        taken.day(),
        taken.hour(),
        taken.minute(),
        taken.second()
    )
}
