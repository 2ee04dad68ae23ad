//! Damaged files: refused, or served as far as they are right; never served wrong.

use std::path::Path;

use k3_storage::{
    OpenError, Prefix, Store, StoreError,
    file::{FileOptions, FileStore},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{contents, fill};

const FILE: &str = "store.redb";

/// A closed store with some history in a directory, and what it holds.
async fn closed_store(
    directory: &Path,
) -> std::collections::BTreeMap<String, (k3_storage::Revision, Vec<u8>)> {
    let store = FileStore::open(FileOptions::new(directory)).await.unwrap();
    fill(&*store, 200).await;
    let held = contents(&*store).await;
    store.close().await;
    held
}

/// Opens a store that may be damaged, and checks that it reports nothing that is not true.
async fn reports_the_actual_outcome(
    directory: &Path,
    truth: &std::collections::BTreeMap<String, (k3_storage::Revision, Vec<u8>)>,
) -> OpenOutcome {
    let store = match FileStore::open(FileOptions::new(directory)).await {
        Ok(store) => store,
        Err(OpenError::Store(StoreError::Corrupt(_) | StoreError::Unavailable { .. })) => {
            return OpenOutcome::Refused;
        }
        Err(OpenError::NewerFormat { .. }) => return OpenOutcome::Refused,
        Err(other) => panic!("not a clear refusal: {other}"),
    };
    let mut outcome = OpenOutcome::Intact;
    for (name, (revision, value)) in truth {
        let key = k3_storage::Key::try_new(name).unwrap();
        match store.get(&key).await {
            Ok(Some(entry)) => assert_eq!((entry.revision, &entry.value[..]), (*revision, &value[..])),
            Ok(None) => panic!("{name} was lost silently"),
            Err(_) => outcome = OpenOutcome::Refused,
        }
    }
    match store.range(&Prefix::all(), k3_storage::Page::all()).await {
        Ok(range) => assert_eq!(range.entries.len(), truth.len()),
        Err(_) => outcome = OpenOutcome::Refused,
    }
    outcome
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenOutcome {
    Intact,
    Refused,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_never_served() {
    let directory = tempfile::tempdir().unwrap();
    let truth = closed_store(directory.path()).await;
    let good = std::fs::read(directory.path().join(FILE)).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut refused = 0;
    for round in 0..150 {
        // Half of the flips hit the header and its neighbourhood, where they hurt most.
        let span = if round % 2 == 0 { good.len() } else { 16 << 10 };
        let at = rng.random_range(0..span);
        let mut bad = good.clone();
        bad[at] ^= 1 << rng.random_range(0..8);
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join(FILE), &bad).unwrap();
        std::fs::copy(directory.path().join("mark"), copy.path().join("mark")).unwrap();
        if reports_the_actual_outcome(copy.path(), &truth).await == OpenOutcome::Refused {
            refused += 1;
        }
    }
    assert!(
        refused > 10,
        "only {refused} of 150 flips were noticed: is anything checked?"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_a_truncated_file() {
    let directory = tempfile::tempdir().unwrap();
    let truth = closed_store(directory.path()).await;
    let good = std::fs::read(directory.path().join(FILE)).unwrap();
    let mut rng = StdRng::seed_from_u64(11);
    for round in 0..40 {
        let len = if round == 0 {
            0
        } else {
            rng.random_range(0..good.len())
        };
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join(FILE), &good[..len]).unwrap();
        std::fs::copy(directory.path().join("mark"), copy.path().join("mark")).unwrap();
        let outcome = reports_the_actual_outcome(copy.path(), &truth).await;
        assert!(
            outcome == OpenOutcome::Refused,
            "a file cut to {len} of {} bytes was opened",
            good.len()
        );
    }
}

#[tokio::test]
async fn detects_a_lost_file() {
    let directory = tempfile::tempdir().unwrap();
    closed_store(directory.path()).await;
    std::fs::remove_file(directory.path().join(FILE)).unwrap();
    let error = FileStore::open(FileOptions::new(directory.path()))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("missing or empty"), "{error}");
}

#[tokio::test]
async fn rejects_a_foreign_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(FILE), "hello ".repeat(10_000)).unwrap();
    let error = FileStore::open(FileOptions::new(directory.path()))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, OpenError::Store(_)), "{error}");
}

#[tokio::test]
async fn second_opener_learns_which_process_holds_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(FileOptions::new(directory.path())).await.unwrap();
    let error = FileStore::open(FileOptions::new(directory.path()))
        .await
        .map(|_| ())
        .unwrap_err();
    let holder = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&holder), "{error}");
    store.close().await;
    FileStore::open(FileOptions::new(directory.path())).await.unwrap();
}
