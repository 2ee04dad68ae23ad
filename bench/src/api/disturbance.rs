//! Writers at a steady pace, alone and beside a client that lists all pods.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::BodyExt;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    client::{ApiRequest, Connection},
    load::{RequestTally, Session, is_object},
    objects,
    operations::{PODS, config_map_name, config_maps, make_namespace, pod_name, pods},
};
use crate::{BenchError, choices::BenchEffort, latency::Percentiles};

const NAMESPACE: &str = "k3-bench-steady";
/// As many again as the namespace of the load has: a list of all namespaces has 10,000.
const MORE_PODS: usize = PODS;
const WRITES_PER_SECOND: u32 = 500;
const SECONDS: u32 = 30;
/// How many objects are written to.
const OBJECTS: usize = 1_000;

/// How lists slow writers down.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DisturbanceRow {
    pub(crate) writes_per_second: u32,
    pub(crate) pods: usize,
    /// How many lists were answered, one after the other.
    pub(crate) lists: usize,
    pub(crate) alone: Percentiles,
    pub(crate) beside_lists: Percentiles,
}

/// Measures writers alone, then beside lists.
pub(crate) async fn measure(
    session: &Session<'_>,
    effort: BenchEffort,
) -> Result<DisturbanceRow, BenchError> {
    make_namespace(session, NAMESPACE).await?;
    let make = |index: usize| ApiRequest::post(pods(NAMESPACE), &objects::pod(&pod_name(index), index));
    session.prepare(MORE_PODS, &[201], make).await?;
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        ApiRequest::post(config_maps(NAMESPACE), &object)
    };
    session.prepare(OBJECTS, &[201], make).await?;

    let seconds = effort.of(SECONDS);
    let alone = write(session, seconds, 1).await?;
    let lists = Arc::new(AtomicUsize::new(0));
    let mut lister = JoinSet::new();
    lister.spawn(list(session.endpoint.connect().await?, Arc::clone(&lists)));
    let beside_lists = write(session, seconds, 2).await?;
    if let Some(ended) = lister.try_join_next() {
        ended??;
    }
    Ok(DisturbanceRow {
        writes_per_second: WRITES_PER_SECOND,
        pods: PODS + MORE_PODS,
        lists: lists.load(Ordering::Relaxed),
        alone,
        beside_lists,
    })
}

/// Lists all pods repeatedly, and throws them away.
async fn list(mut connection: Connection, lists: Arc<AtomicUsize>) -> Result<(), BenchError> {
    loop {
        let response = connection.send(ApiRequest::get("/api/v1/pods")).await?;
        if response.status() != 200 {
            return Err(format!("a list is answered with {}", response.status()).into());
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        lists.fetch_add(1, Ordering::Relaxed);
    }
}

/// Updates objects for so many seconds, each at its time.
async fn write(session: &Session<'_>, seconds: u32, round: usize) -> Result<Percentiles, BenchError> {
    let connections = session.endpoint.connections(session.connections).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let writes = WRITES_PER_SECOND * seconds;
    let start = Instant::now();
    let mut writers = JoinSet::new();
    for mut connection in connections {
        let next = Arc::clone(&next);
        writers.spawn(async move {
            let mut tally = RequestTally::default();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(due) = due(index, writes) else {
                    return tally;
                };
                let object = index % OBJECTS;
                let version = round * writes as usize + index;
                let name = config_map_name(object);
                let changed = objects::config_map(&name, object, version);
                let call = ApiRequest::put(format!("{}/{name}", config_maps(NAMESPACE)), &changed);
                sleep_until(start + due).await;
                let check = |answer: &_| is_object(answer, 200, &name);
                if !tally.call(&mut connection, call, check).await {
                    return tally;
                }
            }
        });
    }
    let mut tally = RequestTally::default();
    while let Some(writer) = writers.join_next().await {
        tally.append(writer?);
    }
    match tally.first_error {
        Some(error) => Err(error.into()),
        None => Ok(tally.latencies.percentiles()),
    }
}

/// When a write is due, if it is one of so many.
fn due(index: usize, writes: u32) -> Option<Duration> {
    let index = u32::try_from(index).ok().filter(|index| *index < writes)?;
    Some(Duration::from_secs(1) * index / WRITES_PER_SECOND)
}

// --- DisturbanceRow ---

impl DisturbanceRow {
    /// How many times longer the slowest writes take beside lists.
    pub(crate) fn rise(&self) -> f64 {
        self.beside_lists.p99_us / self.alone.p99_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_due_at_a_steady_pace() {
        assert_eq!(due(0, 1000), Some(Duration::ZERO));
        assert_eq!(due(1, 1000), Some(Duration::from_millis(2)));
        assert_eq!(due(999, 1000), Some(Duration::from_millis(1998)));
        assert_eq!(due(1000, 1000), None);
    }
}
