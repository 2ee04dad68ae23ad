//! Pods die, others take their place, and meanwhile clients ask for single objects.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::report::WaitRow;
use crate::{
    BenchError,
    api::{
        client::{ApiRequest, ApiResponse, Connection, MERGE_PATCH},
        load::{RequestTally, Session},
        objects,
        operations::{config_map_name, config_maps, make_namespace},
    },
};

/// How many pods die in a second.
const DEATHS: u32 = 20;
/// How many clients ask, and what each waits between two questions.
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
/// Where they write.
const NAMESPACE: &str = "asked";

const VERBS: [&str; 4] = [
    "create ConfigMap",
    "get Pod",
    "patch ConfigMap",
    "delete ConfigMap",
];

#[derive(Deserialize)]
struct List {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

/// Lets pods die for so long. Gives how many did, and what clients waited meanwhile.
pub(super) async fn measure(
    session: &Session<'_>,
    time: Duration,
) -> Result<(usize, Vec<WaitRow>), BenchError> {
    make_namespace(session, NAMESPACE).await?;
    let deaths = usize::try_from(time.as_secs())? * DEATHS as usize;
    let answer = session
        .ask(
            ApiRequest::get(format!("/api/v1/pods?limit={}", deaths + 1)),
            &[200],
        )
        .await?;
    let list: List = serde_json::from_slice(&answer.body)?;
    let mut paths = list.items.into_iter().map(|pod| {
        let Metadata { name, namespace } = pod.metadata;
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    });
    let asked = paths.next().ok_or("there are no pods")?;
    let paths: Vec<_> = paths.collect();

    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let connection = session.endpoint.connect().await?;
        clients.spawn(ask(connection, client, asked.clone(), end));
    }
    let mut connection = session.endpoint.connect().await?;
    let mut ticks = interval(Duration::from_secs(1) / DEATHS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for path in &paths {
        ticks.tick().await;
        connection
            .call(ApiRequest::delete(path))
            .await?
            .expect(&[200, 404])?;
    }
    let mut tallies: [RequestTally; VERBS.len()] = Default::default();
    while let Some(client) = clients.join_next().await {
        for (all, one) in tallies.iter_mut().zip(client?) {
            all.append(one);
        }
    }
    let mut rows = Vec::new();
    for (verb, tally) in VERBS.into_iter().zip(tallies) {
        if let Some(error) = tally.first_error {
            return Err(error.into());
        }
        rows.push(WaitRow {
            verb,
            requests: tally.latencies.count(),
            latency: tally.latencies.percentiles(),
        });
    }
    Ok((paths.len(), rows))
}

/// One client, which makes an object, asks for another, changes the first and deletes it, repeatedly.
async fn ask(
    mut connection: Connection,
    client: usize,
    pod: String,
    end: Instant,
) -> [RequestTally; VERBS.len()] {
    let mut tallies: [RequestTally; VERBS.len()] = Default::default();
    let name = config_map_name(client);
    let path = config_maps(NAMESPACE);
    let path_of_object = format!("{path}/{name}");
    while Instant::now() < end {
        let calls = [
            ApiRequest::post(&*path, &objects::config_map(&name, client, 0)),
            ApiRequest::get(&*pod),
            ApiRequest::patch(&*path_of_object, MERGE_PATCH, &json!({"data": {"round": "1"}})),
            ApiRequest::delete(&*path_of_object),
        ];
        for (tally, call) in tallies.iter_mut().zip(calls) {
            let check = |answer: &ApiResponse| answer.expect(&[200, 201]);
            if !tally.call(&mut connection, call, check).await {
                return tallies;
            }
            sleep(PAUSE).await;
        }
    }
    tallies
}
