//! The node that the pods of the load are bound to. It takes no others, and is kept ready.

use std::{convert::Infallible, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{
    client::{ApiRequest, MERGE_PATCH},
    load::Session,
    objects::{self, PARKED_NODE},
};
use crate::BenchError;

/// How often it reports that it is ready: as often as a kubelet does.
const REPORT: Duration = Duration::from_secs(10);

pub(super) async fn create(session: &Session<'_>) -> Result<(), BenchError> {
    let mut node = objects::node(PARKED_NODE);
    node["spec"] = json!({"unschedulable": true});
    session
        .ask(ApiRequest::post("/api/v1/nodes", &node), &[201])
        .await?;
    Ok(())
}

/// Reports that it is ready, until that fails.
pub(super) async fn keep_ready(session: &Session<'_>) -> BenchError {
    match report(session).await {
        Ok(never) => match never {},
        Err(error) => format!("the node of the pods: {error}").into(),
    }
}

async fn report(session: &Session<'_>) -> Result<Infallible, BenchError> {
    let path = format!("/api/v1/nodes/{PARKED_NODE}/status");
    loop {
        tokio::time::sleep(REPORT).await;
        let now = Timestamp::now().to_string();
        let ready =
            json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now});
        let patch = json!({"status": {"conditions": [ready]}});
        session
            .ask(ApiRequest::patch(&path, MERGE_PATCH, &patch), &[200])
            .await?;
    }
}
