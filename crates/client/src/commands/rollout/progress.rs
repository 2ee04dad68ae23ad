//! The status of a rollout, in kubectl's messages.

use serde_json::Value;

use crate::error::ClientError;

/// The status message of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RolloutProgress {
    InProgress(String),
    Complete(String),
}

use RolloutProgress::{Complete, InProgress};

// upstream: staging/src/k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go Status
pub(super) fn rollout_progress(kind: &str, object: &Value) -> Result<RolloutProgress, ClientError> {
    match kind {
        "Deployment" => deployment(object),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object),
        _ => Err(ClientError::new(format!(
            "no status viewer has been implemented for {kind}"
        ))),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_observed(object: &Value) -> bool {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    number(&object["metadata"]["generation"]) <= number(&object["status"]["observedGeneration"])
}

fn deployment(object: &Value) -> Result<RolloutProgress, ClientError> {
    let name = name(object);
    if !is_observed(object) {
        return Ok(InProgress(
            "Waiting for deployment spec update to be observed...".to_owned(),
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut exceeded = conditions.filter(|condition| condition["reason"] == "ProgressDeadlineExceeded");
    if exceeded.next().is_some() {
        return Err(ClientError::new(format!(
            "deployment {name:?} exceeded its progress deadline"
        )));
    }
    let desired = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let updated = status("updatedReplicas");
    let all = status("replicas");
    let available = status("availableReplicas");
    let waiting = format!("Waiting for deployment {name:?} rollout to finish:");
    Ok(if updated < desired {
        InProgress(format!(
            "{waiting} {updated} out of {desired} new replicas have been updated..."
        ))
    } else if all > updated {
        InProgress(format!(
            "{waiting} {} old replicas are pending termination...",
            all - updated
        ))
    } else if available < updated {
        InProgress(format!(
            "{waiting} {available} of {updated} updated replicas are available..."
        ))
    } else {
        Complete(format!("deployment {name:?} successfully rolled out"))
    })
}

fn daemon_set(object: &Value) -> Result<RolloutProgress, ClientError> {
    let name = name(object);
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Err(ClientError::new(
            "rollout status is only available for RollingUpdate strategy type",
        ));
    }
    if !is_observed(object) {
        return Ok(InProgress(
            "Waiting for daemon set spec update to be observed...".to_owned(),
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    let desired = status("desiredNumberScheduled");
    let updated = status("updatedNumberScheduled");
    let available = status("numberAvailable");
    let waiting = format!("Waiting for daemon set {name:?} rollout to finish:");
    Ok(if updated < desired {
        InProgress(format!(
            "{waiting} {updated} out of {desired} new pods have been updated..."
        ))
    } else if available < desired {
        InProgress(format!(
            "{waiting} {available} of {desired} updated pods are available..."
        ))
    } else {
        Complete(format!("daemon set {name:?} successfully rolled out"))
    })
}

fn stateful_set(object: &Value) -> Result<RolloutProgress, ClientError> {
    let strategy = &object["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Err(ClientError::new(
            "rollout status is only available for RollingUpdate strategy type",
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    if status("observedGeneration") == 0 || !is_observed(object) {
        return Ok(InProgress(
            "Waiting for statefulset spec update to be observed...".to_owned(),
        ));
    }
    let desired = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = status("readyReplicas");
    let updated = status("updatedReplicas");
    if ready < desired {
        return Ok(InProgress(format!(
            "Waiting for {} pods to be ready...",
            desired - ready
        )));
    }
    let partition = strategy["rollingUpdate"]["partition"]
        .as_i64()
        .unwrap_or_default();
    if partition > 0 {
        let part = desired - partition;
        return Ok(if updated < part {
            InProgress(format!(
                "Waiting for partitioned roll out to finish: {updated} out of {part} new pods have been updated..."
            ))
        } else {
            Complete(format!(
                "partitioned roll out complete: {updated} new pods have been updated..."
            ))
        });
    }
    let revision = |field: &str| object["status"][field].as_str().unwrap_or_default().to_owned();
    let update = revision("updateRevision");
    let current = revision("currentRevision");
    Ok(if update == current {
        Complete(format!(
            "statefulset rolling update complete {} pods at revision {current}...",
            status("currentReplicas")
        ))
    } else {
        InProgress(format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment_progress(status: &Value) -> RolloutProgress {
        let object =
            json!({"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": status});
        rollout_progress("Deployment", &object).unwrap()
    }

    #[test]
    fn reports_each_stage_of_a_deployment() {
        let in_progress = |text: &str| InProgress(text.to_owned());
        assert_eq!(
            deployment_progress(&json!({"observedGeneration": 1})),
            in_progress("Waiting for deployment spec update to be observed...")
        );
        assert_eq!(
            deployment_progress(&json!({"observedGeneration": 2, "updatedReplicas": 1})),
            in_progress(
                "Waiting for deployment \"web\" rollout to finish: 1 out of 3 new replicas have been updated..."
            )
        );
        assert_eq!(
            deployment_progress(&json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4})),
            in_progress(
                "Waiting for deployment \"web\" rollout to finish: 1 old replicas are pending termination..."
            )
        );
        assert_eq!(
            deployment_progress(
                &json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 2})
            ),
            in_progress(
                "Waiting for deployment \"web\" rollout to finish: 2 of 3 updated replicas are available..."
            )
        );
        assert_eq!(
            deployment_progress(
                &json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3})
            ),
            Complete("deployment \"web\" successfully rolled out".to_owned())
        );
    }
}
