//! Clients that call as fast as they are answered.
//!
//! Promises: connections are open before the clock starts; every answer is checked, outside its latency and
//! inside the time of the whole; an answer that is wrong counts as an error and not as an operation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::Deserialize;
use tokio::{task::JoinSet, time::Instant};

use super::client::{ApiRequest, ApiResponse, Connection, Endpoint};
use crate::{
    BenchError,
    cpu::CpuMeter,
    latency::{Latencies, Percentiles},
};

/// A server, and how to load it.
pub(crate) struct Session<'server> {
    pub(crate) endpoint: &'server Endpoint,
    pub(crate) meter: CpuMeter,
    pub(crate) connections: usize,
}

/// What one or more clients saw.
#[derive(Default)]
pub(crate) struct RequestTally {
    pub(crate) latencies: Latencies,
    /// Of the answers that were right.
    pub(crate) bytes: usize,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
}

/// What a run cost.
#[derive(Clone, Debug)]
pub(crate) struct LoadResult {
    /// How many succeeded.
    pub(crate) operations: usize,
    pub(crate) took: Duration,
    /// CPU time of the server.
    pub(crate) cpu: Duration,
    pub(crate) latency: Percentiles,
    pub(crate) bytes: usize,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
}

/// A stretch of time and CPU time, begun.
pub(crate) struct Stopwatch {
    meter: CpuMeter,
    start: Instant,
    before: crate::cpu::CpuTime,
}

/// As much of an object as is checked.
#[derive(Deserialize)]
pub(crate) struct ResponseHead {
    pub(crate) metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) next_page: String,
}

// --- Session ---

impl Session<'_> {
    /// Makes `count` calls over so many connections, each as soon as the one before is answered.
    pub(crate) async fn drive(
        &self,
        count: usize,
        connections: usize,
        make: impl Fn(usize) -> ApiRequest + Send + Sync + 'static,
        check: impl Fn(usize, &ApiResponse) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<LoadResult, BenchError> {
        let connections = self.endpoint.connections(connections.min(count)).await?;
        let shared = Arc::new((AtomicUsize::new(0), make, check));
        let stopwatch = Stopwatch::start(self.meter)?;
        let mut clients = JoinSet::new();
        for mut connection in connections {
            let shared = Arc::clone(&shared);
            clients.spawn(async move {
                let (next, make, check) = &*shared;
                let mut tally = RequestTally::default();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return tally;
                    }
                    let checked = |answer: &ApiResponse| check(index, answer);
                    if !tally.call(&mut connection, make(index), checked).await {
                        return tally;
                    }
                }
            });
        }
        let mut tally = RequestTally::default();
        while let Some(client) = clients.join_next().await {
            tally.append(client?);
        }
        stopwatch.stop(tally)
    }

    /// Makes calls that must go well and are not measured.
    pub(crate) async fn prepare(
        &self,
        count: usize,
        statuses: &'static [u16],
        make: impl Fn(usize) -> ApiRequest + Send + Sync + 'static,
    ) -> Result<(), BenchError> {
        let check = move |_, answer: &ApiResponse| answer.expect(statuses);
        let measured = self.drive(count, self.connections, make, check).await?;
        match measured.first_error {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// One call that must go well.
    pub(crate) async fn ask(&self, call: ApiRequest, statuses: &[u16]) -> Result<ApiResponse, BenchError> {
        let answer = self.endpoint.connect().await?.call(call).await?;
        answer.expect(statuses)?;
        Ok(answer)
    }
}

// --- RequestTally ---

impl RequestTally {
    /// Makes one call and counts it; false if the connection is no good any more.
    pub(crate) async fn call(
        &mut self,
        connection: &mut Connection,
        call: ApiRequest,
        check: impl FnOnce(&ApiResponse) -> Result<(), String>,
    ) -> bool {
        let start = Instant::now();
        let answered = connection.call(call).await;
        let took = start.elapsed();
        match answered {
            Ok(answer) => {
                match check(&answer) {
                    Ok(()) => {
                        self.latencies.add(took);
                        self.bytes += answer.body.len();
                    }
                    Err(error) => self.error(error),
                }
                true
            }
            Err(failure) => {
                self.error(failure.to_string());
                false
            }
        }
    }

    pub(crate) fn error(&mut self, error: String) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.latencies.append(other.latencies);
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

// --- Stopwatch ---

impl Stopwatch {
    pub(crate) fn start(meter: CpuMeter) -> Result<Self, BenchError> {
        Ok(Self {
            meter,
            before: meter.read()?,
            start: Instant::now(),
        })
    }

    pub(crate) fn stop(self, tally: RequestTally) -> Result<LoadResult, BenchError> {
        let took = self.start.elapsed();
        let cpu = self.meter.read()?.since(self.before).server;
        Ok(LoadResult {
            operations: tally.latencies.count(),
            took,
            cpu,
            latency: tally.latencies.percentiles(),
            bytes: tally.bytes,
            errors: tally.errors,
            first_error: tally.first_error,
        })
    }
}

/// Whether an answer has this status and is the object of this name.
pub(crate) fn is_object(answer: &ApiResponse, status: u16, name: &str) -> Result<(), String> {
    answer.expect(&[status])?;
    let head: ResponseHead = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    if head.metadata.name == name && !head.metadata.resource_version.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "`{}` was returned instead of `{name}`",
            head.metadata.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> ApiResponse {
        ApiResponse {
            status,
            body: body.to_owned().into(),
        }
    }

    #[test]
    fn only_the_object_that_was_asked_for_will_do() {
        let good = r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#;
        assert_eq!(is_object(&answer(200, good), 200, "a"), Ok(()));
        assert!(is_object(&answer(200, good), 200, "b").is_err());
        assert!(is_object(&answer(200, good), 201, "a").is_err());
        assert!(is_object(&answer(200, r#"{"metadata":{"name":"a"}}"#), 200, "a").is_err());
        assert!(is_object(&answer(200, "a"), 200, "a").is_err());
    }

    #[test]
    fn tallies_add_up_and_keep_the_first_error() {
        let mut all = RequestTally::default();
        for error in ["one", "two"] {
            let mut tally = RequestTally::default();
            tally.latencies.add(Duration::from_millis(1));
            tally.error(error.to_owned());
            all.append(tally);
        }
        assert_eq!((all.latencies.count(), all.errors), (2, 2));
        assert_eq!(all.first_error.as_deref(), Some("one"));
    }
}
