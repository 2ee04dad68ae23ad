//! Streams that are damaged, cut, mixed up or made to do harm.

use std::io;

use proptest::prelude::*;
use tokio::io::AsyncReadExt;

use super::{
    super::{BackupStreamError, RestoreError, inspect, restore},
    REVISION, any_entries, backup_of, block_on, entries_of, entry, expiring,
    forgery::ForgedBackup,
    quiet, store_of,
};
use crate::{Entry, ImportError, MAX_VALUE_BYTES, ReadError, Store, StoreError, memory::MemoryStore};

fn samples() -> Vec<Entry> {
    vec![
        entry("/a", b"first", 3),
        expiring("/b", b"second", 4),
        entry("/c", b"", 5),
        entry("/d", b"last", 6),
    ]
}

/// How a stream is refused. Checks that both ways of reading it agree, that the target cannot be used
/// unless it was not touched at all, and that it takes a good stream afterwards.
async fn restore_error(bytes: &[u8]) -> BackupStreamError {
    let target = MemoryStore::new();
    let error = restore(bytes, &*target, quiet)
        .await
        .expect_err("a bad stream is refused");
    match target.get(&entry("/a", b"", 1).key).await {
        Ok(None) => assert!(bytes.len() <= 32 || inspect(&bytes[..32]).await.is_err()),
        Ok(Some(entry)) => panic!("a refused stream left {entry:?}"),
        Err(error) => assert!(
            matches!(error, ReadError::Store(StoreError::UnfinishedImport)),
            "{error}"
        ),
    }
    let good = backup_of(&samples()).await;
    restore(&good[..], &*target, quiet)
        .await
        .expect("the target takes a good stream");
    assert_eq!(entries_of(&*target).await, samples());

    let RestoreError::Stream(error) = error else {
        panic!("the target is not to blame: {error}");
    };
    assert_eq!(inspect(bytes).await.unwrap_err().to_string(), error.to_string());
    error
}

#[track_caller]
fn assert_damaged(error: &BackupStreamError, after: u64, because: &str) {
    let BackupStreamError::Damaged { entries, reason, .. } = error else {
        panic!("not seen as damage: {error}");
    };
    assert_eq!(*entries, after, "{error}");
    assert!(reason.contains(because), "{error}");
}

#[tokio::test]
async fn rejects_every_truncation_with_its_offset() {
    let bytes = backup_of(&samples()).await;
    for length in 1..bytes.len() {
        let error = restore_error(&bytes[..length]).await;
        let BackupStreamError::Truncated { at, entries } = error else {
            panic!("cut to {length} bytes: {error}");
        };
        assert_eq!(at, length as u64);
        assert!(entries <= 4);
    }
    assert!(matches!(restore_error(&[]).await, BackupStreamError::NotABackup));
}

#[tokio::test]
async fn rejects_every_flipped_bit_with_its_offset() {
    let bytes = backup_of(&samples()).await;
    for byte in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 1 << bit;
            match inspect(&flipped[..])
                .await
                .expect_err("a flipped stream is refused")
            {
                BackupStreamError::Damaged { at, .. } => {
                    assert!(at <= byte as u64, "found at {at}, is at {byte}");
                }
                BackupStreamError::Truncated { .. } => {} // a length that grew
                BackupStreamError::NotABackup => assert!(byte < 8),
                BackupStreamError::NewerFormat { .. } => assert!((8..12).contains(&byte)),
                BackupStreamError::Io { .. } => panic!("there is no I/O here"),
            }
        }
    }
}

#[tokio::test]
async fn rejects_swapped_frames_with_their_offset() {
    // Equal in length: only the order gives them away.
    let bytes = ForgedBackup::new(9)
        .entry(b"/a", 2, b"x")
        .entry(b"/b", 3, b"y")
        .end(2);
    let frame = 5 + 2 + 2 + 8 + 1 + 1 + 4;
    let mut swapped = bytes.clone();
    swapped[32..32 + frame].copy_from_slice(&bytes[32 + frame..32 + 2 * frame]);
    swapped[32 + frame..32 + 2 * frame].copy_from_slice(&bytes[32..32 + frame]);
    let error = restore_error(&swapped).await;
    assert_damaged(&error, 0, "checksum");
    assert!(error.to_string().contains("at byte 32"), "{error}");
}

#[tokio::test]
async fn rejects_missing_and_foreign_frames() {
    let frame = 5 + 2 + 2 + 8 + 1 + 1 + 4;
    let one = ForgedBackup::new(9)
        .entry(b"/a", 2, b"x")
        .entry(b"/b", 3, b"y")
        .end(2);
    let mut without = one.clone();
    without.drain(32..32 + frame);
    assert_damaged(&restore_error(&without).await, 0, "checksum");

    let other = ForgedBackup::new(9)
        .entry(b"/a", 2, b"X")
        .entry(b"/b", 3, b"Y")
        .end(2);
    let mut mixed = one.clone();
    mixed[32 + frame..32 + 2 * frame].copy_from_slice(&other[32 + frame..32 + 2 * frame]);
    assert_damaged(&restore_error(&mixed).await, 1, "checksum");
}

#[tokio::test]
async fn rejects_forged_backups_with_valid_checksums() {
    let long_key = [b'k'; 769];
    let large_value = vec![0; MAX_VALUE_BYTES + 1];
    let start = || ForgedBackup::new(9).entry(b"/b", 2, b"");
    for (stream, after, because) in [
        (
            start().entry(b"/b", 3, b"").end(2),
            1,
            "keys must be ordered and unique",
        ),
        (
            start().entry(b"/a", 3, b"").end(2),
            1,
            "keys must be ordered and unique",
        ),
        (start().entry(b"/c/", 3, b"").end(2), 1, "not a valid key"),
        (start().entry(b"/c\0", 3, b"").end(2), 1, "not a valid key"),
        (start().entry(b"", 3, b"").end(2), 1, "not a valid key"),
        (start().entry(b"/\xff", 3, b"").end(2), 1, "not UTF-8"),
        (start().entry(&long_key, 3, b"").end(2), 1, "not a valid key"),
        (
            start().entry(b"/c", 10, b"").end(2),
            1,
            "of revision 10, in a backup of revision 9",
        ),
        (start().entry(b"/c", 0, b"").end(2), 1, "of revision 0"),
        (
            start().entry(b"/c", 3, &large_value).end(2),
            1,
            "larger than any store takes",
        ),
        (start().frame(1, b"").end(2), 1, "shorter than its fields"),
        (start().frame(1, b"\x02\0/").end(2), 1, "longer than its entry"),
        (start().frame(1, b"\x01\0/").end(2), 1, "not a valid key"),
        (
            start().frame(1, b"\x02\0/c\x01\0\0\0\0\0\0\0").end(2),
            1,
            "shorter than its fields",
        ),
        (
            start().frame(1, b"\x02\0/c\x01\0\0\0\0\0\0\0\x01abc").end(2),
            1,
            "shorter than its fields",
        ),
        (
            start().frame(1, b"\x02\0/c\x01\0\0\0\0\0\0\0\x02").end(2),
            1,
            "unknown expiry mark 2",
        ),
        (start().frame(0, b"").end(1), 1, "of kind 0"),
        (start().frame(3, b"").end(1), 1, "of kind 3"),
        (start().end(2), 1, "counts 2 entries, here are 1"),
        (start().end(0), 1, "counts 0 entries, here are 1"),
        (
            start().frame(2, b"\x01\0\0\0").end(1),
            1,
            "the trailer has 4 bytes",
        ),
        (ForgedBackup::new(0).end(0), 0, "revision 0"),
        (ForgedBackup::new(u64::MAX).end(0), 0, "no store stands at"),
        (ForgedBackup::with_header(0, 9).end(0), 0, "no format 0"),
    ] {
        assert_damaged(&restore_error(&stream).await, after, because);
    }
}

#[tokio::test]
async fn rejects_a_huge_length_before_allocating() {
    // The stream continues for ever, so that only the length itself can be the reason.
    let head = ForgedBackup::new(9).frame_of_length(1, u32::MAX, b"").bytes();
    let endless = (&head[..]).chain(tokio::io::repeat(b'x'));
    let error = inspect(endless).await.unwrap_err();
    assert_damaged(&error, 0, "4294967295 bytes is larger than any store takes");
}

#[tokio::test]
async fn endless_streams_end() {
    assert!(matches!(
        inspect(tokio::io::repeat(0)).await.unwrap_err(),
        BackupStreamError::NotABackup
    ));
    let header = ForgedBackup::new(9).bytes();
    let zeros = (&header[..]).chain(tokio::io::repeat(0));
    assert_damaged(&inspect(zeros).await.unwrap_err(), 0, "of kind 0");
    let whole = backup_of(&samples()).await;
    let longer = (&whole[..]).chain(tokio::io::repeat(b'\n'));
    assert_damaged(&inspect(longer).await.unwrap_err(), 4, "more follows its trailer");
}

#[tokio::test]
async fn rejects_concatenated_backups() {
    let mut bytes = backup_of(&samples()).await;
    bytes.extend(bytes.clone());
    assert_damaged(&restore_error(&bytes).await, 4, "more follows its trailer");
}

#[tokio::test]
async fn rejects_a_newer_format_with_a_hint() {
    let error = restore_error(&ForgedBackup::with_header(2, 9).end(0)).await;
    assert_eq!(
        error.to_string(),
        format!(
            "the backup is of format 2, this program reads up to 1; use a newer k3 than {}",
            env!("CARGO_PKG_VERSION")
        )
    );
}

#[tokio::test]
async fn a_foreign_file_leaves_the_target_unchanged() {
    for bytes in [
        &b"{\"kind\":\"List\"}, and so on, for some more bytes"[..],
        b"x",
        &[0; 100],
    ] {
        let target = MemoryStore::new();
        let error = restore(bytes, &*target, quiet).await.unwrap_err();
        assert_eq!(error.to_string(), "this is not a k3 backup");
        assert_eq!(entries_of(&*target).await, []);
    }
}

#[tokio::test]
async fn a_non_empty_target_is_not_changed() {
    let target = store_of(&[entry("/mine", b"kept", 2)]).await;
    let error = restore(&backup_of(&samples()).await[..], &*target, quiet)
        .await
        .unwrap_err();
    assert!(
        matches!(error, RestoreError::Import(ImportError::NotEmpty)),
        "{error}"
    );
    assert_eq!(entries_of(&*target).await, [entry("/mine", b"kept", 2)]);
}

#[tokio::test]
async fn a_stream_that_fails_reports_where() {
    let bytes = backup_of(&samples()).await;
    let broken = (&bytes[..50]).chain(failing_input());
    let target = MemoryStore::new();
    let error = restore(broken, &*target, quiet).await.unwrap_err();
    let RestoreError::Stream(BackupStreamError::Io { at: 50, source }) = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
    assert!(target.current_revision().await.is_err());
}

/// An input that fails at its first byte.
fn failing_input() -> impl tokio::io::AsyncRead {
    struct FailingInput;
    impl tokio::io::AsyncRead for FailingInput {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }
    FailingInput
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rejects_random_damage(
        entries in any_entries(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        block_on(async {
            let good = backup_of(&entries).await;
            let mut bad = good.clone();
            for (index, flip) in flips {
                bad[index.index(good.len())] ^= flip;
            }
            if bad != good {
                restore_error(&bad).await;
            }
        });
    }

    #[test]
    fn rejects_random_truncations(entries in any_entries(), cut in any::<prop::sample::Index>()) {
        block_on(async {
            let good = backup_of(&entries).await;
            restore_error(&good[..cut.index(good.len())]).await;
        });
    }

    #[test]
    fn rejects_missing_and_repeated_pieces(
        entries in any_entries(),
        from in any::<prop::sample::Index>(),
        length in 1..100_usize,
    ) {
        block_on(async {
            let good = backup_of(&entries).await;
            let from = from.index(good.len());
            let piece = from..(from + length).min(good.len());
            let mut without = good.clone();
            without.drain(piece.clone());
            restore_error(&without).await;
            let mut doubled = good[..piece.end].to_vec();
            doubled.extend(&good[piece.start..]);
            restore_error(&doubled).await;
        });
    }

    #[test]
    fn rejects_noise_after_the_header(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        block_on(async {
            let mut bytes = ForgedBackup::new(REVISION).bytes();
            bytes.extend(noise);
            restore_error(&bytes).await;
        });
    }
}
