//! How far a change is, in kubectl's words.

use serde_json::Value;

use crate::failed::Failed;

/// How far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Going(String),
    Done(String),
}

use Progress::{Done, Going};

/// How far the change of a workload is.
pub(super) fn of(kind: &str, object: &Value) -> Result<Progress, Failed> {
    match kind {
        "Deployment" => deployment(object),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object),
        _ => Err(Failed::new(format!(
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

fn deployment(object: &Value) -> Result<Progress, Failed> {
    let name = name(object);
    if !is_observed(object) {
        return Ok(Going(
            "Waiting for deployment spec update to be observed...".to_owned(),
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut late = conditions.filter(|condition| condition["reason"] == "ProgressDeadlineExceeded");
    if late.next().is_some() {
        return Err(Failed::new(format!(
            "deployment {name:?} exceeded its progress deadline"
        )));
    }
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let updated = status("updatedReplicas");
    let all = status("replicas");
    let available = status("availableReplicas");
    let waiting = format!("Waiting for deployment {name:?} rollout to finish:");
    Ok(if updated < wanted {
        Going(format!(
            "{waiting} {updated} out of {wanted} new replicas have been updated..."
        ))
    } else if all > updated {
        Going(format!(
            "{waiting} {} old replicas are pending termination...",
            all - updated
        ))
    } else if available < updated {
        Going(format!(
            "{waiting} {available} of {updated} updated replicas are available..."
        ))
    } else {
        Done(format!("deployment {name:?} successfully rolled out"))
    })
}

fn daemon_set(object: &Value) -> Result<Progress, Failed> {
    let name = name(object);
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Err(Failed::new(
            "rollout status is only available for RollingUpdate strategy type",
        ));
    }
    if !is_observed(object) {
        return Ok(Going(
            "Waiting for daemon set spec update to be observed...".to_owned(),
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    let wanted = status("desiredNumberScheduled");
    let updated = status("updatedNumberScheduled");
    let available = status("numberAvailable");
    let waiting = format!("Waiting for daemon set {name:?} rollout to finish:");
    Ok(if updated < wanted {
        Going(format!(
            "{waiting} {updated} out of {wanted} new pods have been updated..."
        ))
    } else if available < wanted {
        Going(format!(
            "{waiting} {available} of {wanted} updated pods are available..."
        ))
    } else {
        Done(format!("daemon set {name:?} successfully rolled out"))
    })
}

fn stateful_set(object: &Value) -> Result<Progress, Failed> {
    let strategy = &object["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Err(Failed::new(
            "rollout status is only available for RollingUpdate strategy type",
        ));
    }
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    if status("observedGeneration") == 0 || !is_observed(object) {
        return Ok(Going(
            "Waiting for statefulset spec update to be observed...".to_owned(),
        ));
    }
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = status("readyReplicas");
    let updated = status("updatedReplicas");
    if ready < wanted {
        return Ok(Going(format!(
            "Waiting for {} pods to be ready...",
            wanted - ready
        )));
    }
    let partition = strategy["rollingUpdate"]["partition"]
        .as_i64()
        .unwrap_or_default();
    if partition > 0 {
        let part = wanted - partition;
        return Ok(if updated < part {
            Going(format!(
                "Waiting for partitioned roll out to finish: {updated} out of {part} new pods have been updated..."
            ))
        } else {
            Done(format!(
                "partitioned roll out complete: {updated} new pods have been updated..."
            ))
        });
    }
    let revision = |field: &str| object["status"][field].as_str().unwrap_or_default().to_owned();
    let update = revision("updateRevision");
    let current = revision("currentRevision");
    Ok(if update == current {
        Done(format!(
            "statefulset rolling update complete {} pods at revision {current}...",
            status("currentReplicas")
        ))
    } else {
        Going(format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(status: &Value) -> Progress {
        let object =
            json!({"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": status});
        of("Deployment", &object).unwrap()
    }

    #[test]
    fn a_deployment_is_followed_step_by_step() {
        let going = |text: &str| Going(text.to_owned());
        assert_eq!(
            told(&json!({"observedGeneration": 1})),
            going("Waiting for deployment spec update to be observed...")
        );
        assert_eq!(
            told(&json!({"observedGeneration": 2, "updatedReplicas": 1})),
            going(
                "Waiting for deployment \"web\" rollout to finish: 1 out of 3 new replicas have been updated..."
            )
        );
        assert_eq!(
            told(&json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4})),
            going(
                "Waiting for deployment \"web\" rollout to finish: 1 old replicas are pending termination..."
            )
        );
        assert_eq!(
            told(
                &json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 2})
            ),
            going(
                "Waiting for deployment \"web\" rollout to finish: 2 of 3 updated replicas are available..."
            )
        );
        assert_eq!(
            told(
                &json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3})
            ),
            Done("deployment \"web\" successfully rolled out".to_owned())
        );
    }
}
