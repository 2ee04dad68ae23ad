//! Container events of the engine.

use std::sync::Arc;

use futures_util::{StreamExt, future::ready, stream::BoxStream};
use http::Method;
use serde_json::json;

use super::{
    DockerRuntime,
    client::{CALL_TIMEOUT, query_string},
    line_stream::LineStream,
    responses::EventMessage,
};
use crate::runtime::{PodLifecycleEvent, RuntimeError, labels};

impl DockerRuntime {
    /// Subscribes to the events of this owner's containers.
    pub(super) async fn listen_for_events(
        &self,
    ) -> Result<BoxStream<'static, PodLifecycleEvent>, RuntimeError> {
        let filters = json!({
            "type": ["container"],
            "label": [format!("{}={}", labels::NODE, self.config_generator.owner.node)],
        })
        .to_string();
        let path = format!("/events{}", query_string([("filters", filters.as_str())]));
        let stream = self
            .client
            .stream(Method::GET, &path, &[], CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "listen to events"))?;
        let cache = Arc::clone(&self.cache);
        let owner = self.config_generator.owner.clone();
        let changes = LineStream::new(stream)
            // A broken connection ends the stream: the caller lists and subscribes again.
            .take_while(|line| ready(line.is_ok()))
            .filter_map(move |line| {
                let happened = line
                    .ok()
                    .and_then(|line| kubecontroller::decode::from_slice::<EventMessage>(&line).ok());
                // The engine filters by node name only; a node of another cluster may have the same name.
                let is_owned =
                    |happened: &EventMessage| owner.owns(|name| happened.actor.attributes.get(name));
                let change = happened.filter(is_owned).and_then(|happened| {
                    let change = change(&happened)?;
                    cache.invalidate(&happened.actor.id);
                    Some(change)
                });
                ready(change)
            });
        Ok(changes.boxed())
    }
}

/// Converts an event; `None` if it does not affect the pod status.
fn change(happened: &EventMessage) -> Option<PodLifecycleEvent> {
    // Each exec probe causes three such events.
    let is_about_streams = [
        "exec",
        "attach",
        "resize",
        "top",
        "health_status",
        "archive-path",
        "extract-to-dir",
    ]
    .iter()
    .any(|action| happened.action.starts_with(action));
    if is_about_streams {
        return None;
    }
    let uid = happened.actor.attributes.get(labels::POD_UID);
    Some(uid.map_or(PodLifecycleEvent::Any, |uid| PodLifecycleEvent::Pod {
        uid: uid.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Option<PodLifecycleEvent> {
        change(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn container_exit_is_an_event_of_its_pod() {
        let die = r#"{"Type":"container","Action":"die","Actor":{"ID":"a","Attributes":{"io.kubernetes.pod.uid":"u"}}}"#;
        assert_eq!(heard(die), Some(PodLifecycleEvent::Pod { uid: "u".into() }));
        let unknown = r#"{"Action":"die","Actor":{"ID":"a","Attributes":null}}"#;
        assert_eq!(heard(unknown), Some(PodLifecycleEvent::Any));
    }

    #[test]
    fn ignores_exec_and_attach_events() {
        for action in [
            "exec_create: sh",
            "exec_start: sh",
            "exec_die",
            "exec_died",
            "attach",
            "resize",
        ] {
            let text = json!({ "Action": action, "Actor": { "ID": "a", "Attributes": {} } }).to_string();
            assert_eq!(heard(&text), None, "{action}");
        }
    }
}
