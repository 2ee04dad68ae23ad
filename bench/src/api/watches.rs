//! Watches: what it costs to send each change to many clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    client::{ApiRequest, ApiResponse, Connection},
    load::{RequestTally, ResponseHead, Session, Stopwatch, is_object},
    objects::{ROUND, config_map},
    operations::{config_maps, make_namespace},
    upstream::OperationRow,
};
use crate::{BenchError, choices::BenchEffort};

/// How long a watch may take to open, and all events to arrive.
const PATIENCE: Duration = Duration::from_mins(2);

/// A watch that is open.
pub(crate) struct Watcher {
    body: Incoming,
    lines: LineReader,
    /// Held open.
    _connection: Connection,
}

/// Bytes that become lines.
#[derive(Default)]
struct LineReader {
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
}

/// When a watcher received which change.
struct ReceivedChange {
    round: usize,
    nanos: u64,
}

/// Measures few watchers and many changes, then many watchers and few changes.
pub(crate) async fn measure(
    session: &Session<'_>,
    effort: BenchEffort,
    rows: &mut Vec<OperationRow>,
) -> Result<(), BenchError> {
    for (operation, watchers, changes) in [
        ("watch event, 100 watchers", 100, 5_000),
        ("watch event, 1,000 watchers", 1_000, 1_000),
    ] {
        let changes = effort.of(changes) as usize;
        rows.push(fan_out(session, operation, watchers, changes).await?);
    }
    Ok(())
}

async fn fan_out(
    session: &Session<'_>,
    operation: &'static str,
    watchers: usize,
    changes: usize,
) -> Result<OperationRow, BenchError> {
    let namespace = format!("k3-bench-watch-{watchers}");
    make_namespace(session, &namespace).await?;
    let collection = config_maps(&namespace);
    // More objects than writers: two writers seldom meet at one.
    let objects = session.connections * 4;
    let path = collection.clone();
    let create = move |index: usize| ApiRequest::post(&*path, &config_map(&name(index), index, 0));
    session.prepare(objects, &[201], create).await?;
    let list = session.ask(ApiRequest::get(&*collection), &[200]).await?;
    let list: ResponseHead = serde_json::from_slice(&list.body)?;
    let version = list.metadata.resource_version;
    let mut open = Vec::with_capacity(watchers);
    for _ in 0..watchers {
        let path = format!("{collection}?watch=true&timeoutSeconds=3600&resourceVersion={version}");
        open.push(timeout(PATIENCE, Watcher::open(session, path)).await??);
    }

    let stopwatch = Stopwatch::start(session.meter)?;
    let start = Instant::now();
    let mut readers = JoinSet::new();
    for watcher in open {
        readers.spawn(watcher.read(changes, start));
    }
    let answered: Arc<Vec<AtomicU64>> = Arc::new((0..changes).map(|_| AtomicU64::new(0)).collect());
    let times = Arc::clone(&answered);
    let make = move |index: usize| {
        let object = index % objects;
        ApiRequest::put(
            format!("{collection}/{}", name(object)),
            &config_map(&name(object), object, index + 1),
        )
    };
    let check = move |index: usize, answer: &ApiResponse| {
        times[index].store(nanos(start), Ordering::Relaxed);
        is_object(answer, 200, &name(index % objects))
    };
    let written = session.drive(changes, session.connections, make, check).await?;

    let mut tally = RequestTally::default();
    if let Some(error) = written.first_error {
        tally.error(error);
    }
    while let Some(reader) = readers.join_next().await {
        match reader? {
            Ok(sightings) => tally.count(&sightings, &answered),
            Err(failure) => tally.error(failure.to_string()),
        }
    }
    Ok(OperationRow::new(operation, stopwatch.stop(tally)?))
}

fn name(object: usize) -> String {
    format!("watched-{object:04}")
}

/// Nanoseconds since then: of an hour they fill 42 bits.
fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

// --- Watcher ---

impl Watcher {
    /// Begins the watch that is at a path.
    pub(crate) async fn open(session: &Session<'_>, path: String) -> Result<Self, BenchError> {
        let mut connection = session.endpoint.connect().await?;
        let response = connection.send(ApiRequest::get(path)).await?;
        if response.status() != 200 {
            return Err(format!("a watch is answered with {}", response.status()).into());
        }
        Ok(Self {
            body: response.into_body(),
            lines: LineReader::default(),
            _connection: connection,
        })
    }

    /// Reads until there were so many events.
    async fn read(mut self, events: usize, start: Instant) -> Result<Vec<ReceivedChange>, BenchError> {
        let mut seen = Vec::with_capacity(events);
        while seen.len() < events {
            let ended = format!("a watch ended after {} of {events} events", seen.len());
            let data = self.data().await?.ok_or(ended)?;
            let now = nanos(start);
            self.lines.add(&data, |line| {
                let round = round(line).ok_or("a watch sent something else than a change")?;
                seen.push(ReceivedChange { round, nanos: now });
                Ok(())
            })?;
        }
        Ok(seen)
    }

    /// Waits for events, and gives each as the line that arrived. False if the watch has ended.
    pub(crate) async fn events(
        &mut self,
        each: impl FnMut(&[u8]) -> Result<(), BenchError>,
    ) -> Result<bool, BenchError> {
        let Some(data) = self.data().await? else {
            return Ok(false);
        };
        self.lines.add(&data, each)?;
        Ok(true)
    }

    /// The next event; an error when none arrives for long.
    async fn data(&mut self) -> Result<Option<Bytes>, BenchError> {
        loop {
            let Some(frame) = timeout(PATIENCE, self.body.frame()).await? else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// The round of the object in a MODIFIED event. Looked for and not parsed: of the two cores that server and
/// load share, the load shall take little.
fn round(line: &[u8]) -> Option<usize> {
    let line = std::str::from_utf8(line).ok()?;
    line.starts_with(r#"{"type":"MODIFIED""#).then_some(())?;
    let (_, after) = line.split_once(&format!(r#""{ROUND}":""#))?;
    after.split_once('"')?.0.parse().ok()
}

// --- LineReader ---

impl LineReader {
    fn add(
        &mut self,
        data: &Bytes,
        mut each: impl FnMut(&[u8]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut pieces = data.split(|byte| *byte == b'\n');
        let mut piece = pieces.next().unwrap_or_default();
        for next in pieces {
            if self.rest.is_empty() {
                each(piece)?;
            } else {
                self.rest.extend_from_slice(piece);
                each(&self.rest)?;
                self.rest.clear();
            }
            piece = next;
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }
}

// --- RequestTally ---

impl RequestTally {
    /// Counts what one watcher saw: each change once, so long after it was answered.
    fn count(&mut self, sightings: &[ReceivedChange], answered: &[AtomicU64]) {
        let mut seen = vec![false; answered.len()];
        for sighting in sightings {
            let index = sighting.round.wrapping_sub(1);
            match seen.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    self.error(format!("change {} was sent twice or never made", sighting.round));
                    continue;
                }
            }
            let answered = answered[index].load(Ordering::Relaxed);
            self.latencies
                .add(Duration::from_nanos(sighting.nanos.saturating_sub(answered)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_pieces() {
        let mut lines = LineReader::default();
        let mut found = Vec::new();
        for data in ["a", "b\nc\nd", "", "e\n"] {
            lines
                .add(&Bytes::from(data), |line| {
                    found.push(String::from_utf8(line.to_vec())?);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(found, ["ab", "c", "de"]);
    }

    #[test]
    fn reads_the_round_of_a_change() {
        let fields = r#""managedFields":[{"f:annotations":{"f:k3-bench/round":{}}}]"#;
        let event = format!(
            r#"{{"type":"MODIFIED","object":{{"metadata":{{{fields},"annotations":{{"k3-bench/round":"12"}}}}}}}}"#
        );
        assert_eq!(round(event.as_bytes()), Some(12));
        assert_eq!(round(event.replace("MODIFIED", "DELETED").as_bytes()), None);
    }

    #[test]
    fn rejects_a_change_that_is_sent_twice() {
        let answered = [AtomicU64::new(0), AtomicU64::new(5000)];
        let sighting = |round, nanos| ReceivedChange { round, nanos };
        let mut tally = RequestTally::default();
        tally.count(&[sighting(2, 7000), sighting(2, 8000), sighting(3, 0)], &answered);
        assert_eq!((tally.latencies.count(), tally.errors), (1, 2));
        assert!((tally.latencies.percentiles().p50_us - 2.0).abs() < 1e-9);
    }
}
