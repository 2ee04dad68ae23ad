//! The controllers, in this process.

use std::sync::Arc;

use k3_apiserver::Server;
use k3_controllers::{CONTROLLERS, Cluster, Context, Descriptor, writer::Writer};
use kubecontroller::{
    events::Style,
    manager::{Config, Manager, Selection, Stop},
};

use crate::{failure::Failure, inside};

/// Who reads for all controllers. What each writes, it writes itself.
const MANAGER: &str = "system:kube-controller-manager";
const AGENT: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));

/// The controllers that a list names, as `--controllers` has it.
pub(super) fn chosen(list: &str) -> Result<Vec<&'static Descriptor>, Failure> {
    let words: Vec<String> = list
        .split(',')
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let wrong = |why: String| {
        let known: Vec<_> = CONTROLLERS.iter().map(|known| known.name).collect();
        Failure::usage(
            format!("--controllers {list}: {why}"),
            format!("'*' is all, -NAME leaves one out; there are {}", known.join(", ")),
        )
    };
    let names = |known: &Descriptor, word: &str| word == "*" || known.name == word || known.alias == word;
    for word in &words {
        let word = word.strip_prefix('-').unwrap_or(word);
        if !CONTROLLERS.iter().any(|known| names(known, word)) {
            return Err(wrong(format!("there is no controller {word}")));
        }
    }
    let selection = Selection::parse(&words).map_err(wrong)?;
    let chosen = CONTROLLERS
        .iter()
        .filter(|known| selection.has(known.name, known.alias));
    Ok(chosen.collect())
}

/// Runs controllers until they are told to stop, and does not end before that.
pub(super) async fn run(server: &Server, chosen: Vec<&'static Descriptor>, authority: String, stop: Stop) {
    if chosen.is_empty() {
        return stop.stopped().await;
    }
    let client = inside::component(server, MANAGER, AGENT);
    let mut manager = Manager::new(Config::default(), client);
    let cluster = Arc::new(Cluster {
        authority,
        ..Cluster::default()
    });
    for descriptor in chosen {
        let context = Context {
            writer: Writer::new(inside::controller(server, descriptor.account)),
            informers: manager.informers().clone(),
            recorder: manager.recorder(descriptor.name).style(Style::Core),
            clock: manager.clock().clone(),
            metrics: manager.metrics().clone(),
            cluster: Arc::clone(&cluster),
        };
        for task in (descriptor.make)(&context) {
            manager.add(task);
        }
    }
    if let Err(error) = manager.run(stop.clone()).await {
        tracing::error!(%error, "the controllers ended; the API server goes on without them");
    }
    stop.stopped().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        chosen(list).unwrap().iter().map(|chosen| chosen.name).collect()
    }

    #[test]
    fn a_list_names_controllers_by_either_name_or_leaves_them_out() {
        assert_eq!(names("*").len(), CONTROLLERS.len());
        assert_eq!(names(""), [""; 0]);
        assert_eq!(
            names("namespace, deployment-controller"),
            ["deployment-controller", "namespace-controller"]
        );
        assert_eq!(names("*,-namespace").len(), CONTROLLERS.len() - 1);
    }

    #[test]
    fn a_name_that_is_nobodys_is_an_error() {
        for list in ["no-such", "*,-no-such", "job,-job"] {
            assert!(chosen(list).is_err(), "{list}");
        }
    }
}
