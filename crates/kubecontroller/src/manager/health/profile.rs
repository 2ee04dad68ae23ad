//! CPU profiles in the format of `go tool pprof`.

use std::{collections::HashMap, time::Duration};

use pprof::{ProfilerGuardBuilder, Report};
use tokio::time::sleep;

/// Samples per second. 99 is not a multiple of common timer frequencies, which avoids sampling in lockstep with them.
const FREQUENCY: i32 = 99;
const SECONDS: std::ops::RangeInclusive<u64> = 1..=300;

/// Why no profile was taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("{0:?} is not a number of seconds")]
    NotSeconds(String),
    #[error("seconds must be {} to {}", SECONDS.start(), SECONDS.end())]
    OutOfRange,
    #[error("failed to start a profile: {0}")]
    Start(#[source] pprof::Error),
    #[error("failed to read the profile: {0}")]
    Read(#[source] pprof::Error),
}

/// Takes a profile for the duration in the query, 30 seconds by default.
pub(super) async fn cpu_profile(query: &str) -> Result<Vec<u8>, ProfileError> {
    let asked = query.split('&').find_map(|part| part.strip_prefix("seconds="));
    let seconds = match asked {
        None => 30,
        Some(text) => text
            .parse()
            .map_err(|_| ProfileError::NotSeconds(text.to_owned()))?,
    };
    if !SECONDS.contains(&seconds) {
        return Err(ProfileError::OutOfRange);
    }
    // Unwinding inside these libraries can deadlock.
    let builder = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&["libc", "libgcc", "pthread", "vdso"]);
    let guard = builder.build().map_err(ProfileError::Start)?;
    sleep(Duration::from_secs(seconds)).await;
    let report = guard.report().build().map_err(ProfileError::Read)?;
    Ok(encode(&report))
}

/// Encodes the samples as a `profile.proto` message.
fn encode(report: &Report) -> Vec<u8> {
    let mut profile = ProtoMessage::default();
    let mut texts = IndexTable::default();
    let mut functions = IndexTable::default();
    let mut locations = IndexTable::default();
    texts.number(String::new());
    let period = 1_000_000_000 / u64::try_from(FREQUENCY).unwrap_or(1);
    for (kind, unit) in [("samples", "count"), ("cpu", "nanoseconds")] {
        let mut value = ProtoMessage::default();
        value.number(1, texts.number(kind.to_owned()));
        value.number(2, texts.number(unit.to_owned()));
        profile.message(1, &value);
    }
    for (frames, count) in &report.data {
        let mut sample = ProtoMessage::default();
        for symbol in frames.frames.iter().flatten() {
            let name = texts.number(symbol.name());
            let file = texts.number(symbol.filename().into_owned());
            let function = functions.number((name, file)) + 1;
            sample.number(1, locations.number((function, symbol.lineno())) + 1);
        }
        let count = u64::try_from(*count).unwrap_or(0);
        sample.number(2, count);
        sample.number(2, count * period);
        profile.message(2, &sample);
    }
    for (id, (function, line)) in (1..).zip(&locations.entries) {
        let mut line_entry = ProtoMessage::default();
        line_entry.number(1, *function);
        line_entry.number(2, u64::from(*line));
        let mut location = ProtoMessage::default();
        location.number(1, id);
        location.message(4, &line_entry);
        profile.message(4, &location);
    }
    for (id, (name, file)) in (1..).zip(&functions.entries) {
        let mut function = ProtoMessage::default();
        for (field, value) in [(1, id), (2, *name), (3, *name), (4, *file)] {
            function.number(field, value);
        }
        profile.message(5, &function);
    }
    for text in &texts.entries {
        profile.bytes(6, text.as_bytes());
    }
    let nanoseconds = u64::try_from(report.timing.duration.as_nanos()).unwrap_or(u64::MAX);
    profile.number(10, nanoseconds);
    profile.number(12, period);
    profile.0
}

/// Values that are referred to by their index, each stored once.
struct IndexTable<T> {
    entries: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T> Default for IndexTable<T> {
    fn default() -> Self {
        IndexTable {
            entries: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> IndexTable<T> {
    fn number(&mut self, entry: T) -> u64 {
        if let Some(number) = self.numbers.get(&entry) {
            return *number;
        }
        let number = self.entries.len() as u64;
        self.entries.push(entry.clone());
        self.numbers.insert(entry, number);
        number
    }
}

/// An encoder for a protobuf message.
#[derive(Default)]
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u64, message: &ProtoMessage) {
        self.bytes(field, &message.0);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0
                .push(u8::try_from(value & 0x7f).expect("seven bits fit") | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).expect("seven bits fit"));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
    };

    use super::cpu_profile;

    #[inline(never)]
    fn burn_for_the_profile(is_over: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        sum
    }

    #[tokio::test]
    async fn profile_contains_busy_function() {
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&is_over);
        let worker = thread::spawn(move || burn_for_the_profile(&busy));
        let profile = cpu_profile("seconds=1").await.unwrap();
        is_over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        let text = String::from_utf8_lossy(&profile);
        assert!(
            text.contains("burn_for_the_profile") && text.contains("nanoseconds"),
            "{text}"
        );
        assert!(cpu_profile("seconds=x").await.is_err() && cpu_profile("seconds=0").await.is_err());
    }
}
