//! What the server takes before anybody asks it anything: time to start, and memory.

use std::{path::Path, time::Duration};

use serde::Serialize;

use super::{
    client::ApiRequest,
    load::Session,
    objects::{self, MINE},
    operations::{NAMESPACE, config_map_name, config_maps, make_namespace},
    server::{Server, ServerOptions},
};
use crate::{
    BenchError,
    choices::{Backend, BenchEffort},
    cpu::CpuMeter,
};

/// How many objects a server has that is not empty.
pub(crate) const OBJECTS: u32 = 50_000;
/// How often an empty server is started.
const STARTS: usize = 5;
/// How long a server may rest before its memory is looked at.
const REST: Duration = Duration::from_secs(2);

/// A server that starts with so many objects of ours.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StartRow {
    pub(crate) objects: usize,
    /// From the process's start to the first 200 of `/readyz`; the median if there were several.
    pub(crate) ms: f64,
    /// Resident memory after a rest.
    pub(crate) resident_bytes: u64,
}

/// What objects weigh.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WeightRow {
    pub(crate) objects: usize,
    /// Bytes of all objects as they are stored and served.
    pub(crate) stored_bytes: u64,
    /// Resident memory before there were any, and after they were created.
    pub(crate) before_bytes: u64,
    pub(crate) after_bytes: u64,
}

/// Starts an empty server several times.
pub(crate) async fn start_empty(server_options: &ServerOptions, dir: &Path) -> Result<StartRow, BenchError> {
    let mut times = Vec::new();
    let mut resident_bytes = 0;
    for run in 0..STARTS {
        let server = server_options.start(&dir.join(format!("empty-{run}"))).await?;
        times.push(server.took);
        if run == 0 {
            resident_bytes = rested(&server).await?;
        }
        server.stop().await?;
    }
    Ok(StartRow {
        objects: 0,
        ms: milliseconds(median(times)),
        resident_bytes,
    })
}

/// Fills a server, and starts it again if it remembers.
pub(crate) async fn fill(
    server_options: &ServerOptions,
    dir: &Path,
    connections: usize,
    effort: BenchEffort,
) -> Result<(WeightRow, Option<StartRow>), BenchError> {
    let directory = dir.join("full");
    let objects = effort.of(OBJECTS) as usize;
    let server = server_options.start(&directory).await?;
    let before_bytes = rested(&server).await?;
    let session = Session {
        endpoint: &server.endpoint,
        meter: CpuMeter::new(Some(server.pid())),
        connections,
    };
    make_namespace(&session, NAMESPACE).await?;
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        ApiRequest::post(config_maps(NAMESPACE), &object)
    };
    session.prepare(objects, &[201], make).await?;
    let after_bytes = rested(&server).await?;
    // After its memory was looked at: a list takes some.
    let list = ApiRequest::get(format!("{}?{MINE}", config_maps(NAMESPACE)));
    let weight = WeightRow {
        objects,
        stored_bytes: session.ask(list, &[200]).await?.body.len() as u64,
        before_bytes,
        after_bytes,
    };
    server.stop().await?;
    if server_options.storage == Backend::Memory {
        return Ok((weight, None));
    }
    let server = server_options.start(&directory).await?;
    let start = StartRow {
        objects,
        ms: milliseconds(server.took),
        resident_bytes: rested(&server).await?,
    };
    server.stop().await?;
    Ok((weight, Some(start)))
}

async fn rested(server: &Server) -> Result<u64, BenchError> {
    tokio::time::sleep(REST).await;
    server.resident()
}

/// The one in the middle; zero of none.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

// --- WeightRow ---

impl WeightRow {
    /// Bytes of memory for each stored byte.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn per_stored_byte(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / self.stored_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |millis: &[u64]| median(millis.iter().copied().map(Duration::from_millis).collect());
        assert_eq!(of(&[9, 1, 5]), Duration::from_millis(5));
        assert_eq!(of(&[]), Duration::ZERO);
    }

    #[test]
    fn objects_weigh_what_memory_grew_by() {
        let row = WeightRow {
            objects: 10,
            stored_bytes: 1000,
            before_bytes: 500,
            after_bytes: 2000,
        };
        assert!((row.per_stored_byte() - 1.5).abs() < 1e-9);
    }
}
