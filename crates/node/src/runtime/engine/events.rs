//! What happens to our containers, as the engine tells it.

use std::sync::Arc;

use futures_util::{StreamExt, future::ready, stream::BoxStream};
use http::Method;
use serde_json::json;

use super::{
    Engine,
    answer::Happened,
    client::{QUICK, query},
    lines::Lines,
};
use crate::runtime::{Change, RuntimeError, labels};

impl Engine {
    /// Wakes whoever listens.
    pub(super) async fn listen(&self) -> Result<BoxStream<'static, Change>, RuntimeError> {
        let wanted = json!({
            "type": ["container"],
            "label": [format!("{}={}", labels::NODE, self.planner.owner.node)],
        })
        .to_string();
        let path = format!("/events{}", query([("filters", wanted.as_str())]));
        let stream = self
            .client
            .stream(Method::GET, &path, &[], QUICK)
            .await
            .map_err(|error| self.failed(error, "listen to events"))?;
        let cache = Arc::clone(&self.cache);
        let owner = self.planner.owner.clone();
        let changes = Lines::new(stream)
            // A broken connection is the end: whoever listens lists and listens again.
            .take_while(|line| ready(line.is_ok()))
            .filter_map(move |line| {
                let happened = line
                    .ok()
                    .and_then(|line| kubecontroller::decode::from_slice::<Happened>(&line).ok());
                // The engine filters by the node: a node of another cluster may have the same name.
                let is_ours = |happened: &Happened| owner.owns(|name| happened.actor.attributes.get(name));
                let change = happened.filter(is_ours).and_then(|happened| {
                    let change = change(&happened)?;
                    cache.forget(&happened.actor.id);
                    Some(change)
                });
                ready(change)
            });
        Ok(changes.boxed())
    }
}

/// What an event changes; `None` if it is nothing that a status tells.
fn change(happened: &Happened) -> Option<Change> {
    // Each probe that runs a command makes three.
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
    Some(uid.map_or(Change::Any, |uid| Change::Pod { uid: uid.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Option<Change> {
        change(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_end_of_a_container_wakes_its_pod() {
        let die = r#"{"Type":"container","Action":"die","Actor":{"ID":"a","Attributes":{"io.kubernetes.pod.uid":"u"}}}"#;
        assert_eq!(heard(die), Some(Change::Pod { uid: "u".into() }));
        let unknown = r#"{"Action":"die","Actor":{"ID":"a","Attributes":null}}"#;
        assert_eq!(heard(unknown), Some(Change::Any));
    }

    #[test]
    fn commands_in_containers_wake_nobody() {
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
