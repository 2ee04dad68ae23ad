//! The graph of a workflow: what may begin when.
//!
//! Promise: a vertex is ready when all that come before it are done, not when the first of them is.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Activity, WorkflowSpec};

/// A graph without cycles, whose edges lead from what is there to what is there.
#[derive(Debug)]
pub struct Graph<'a> {
    /// Every vertex, and what is done there; nothing for events and gateways.
    vertices: BTreeMap<&'a str, Option<&'a Activity>>,
    /// What comes before each vertex.
    before: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Why a graph cannot be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGraph {
    /// There is nothing in it.
    #[error("the workflow has no vertices")]
    Empty,
    /// A vertex has no name.
    #[error("a vertex has no name")]
    Nameless,
    /// Two vertices share a name.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// An edge leads from, or to, nothing.
    #[error("the edge {from:?} -> {to:?} names {missing:?}, which is not there")]
    Missing {
        /// Its begin.
        from: String,
        /// Its end.
        to: String,
        /// The one of them that is not there.
        missing: String,
    },
    /// Each of these waits for the next, and the last for the first.
    #[error("a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

// --- Graph ---

impl<'a> Graph<'a> {
    /// The graph of a spec.
    pub fn new(spec: &'a WorkflowSpec) -> Result<Self, BadGraph> {
        let events = spec.events.iter().map(|event| (event.name.as_str(), None));
        let activities = spec
            .activities
            .iter()
            .map(|activity| (activity.name.as_str(), Some(activity)));
        let gateways = spec.gateways.iter().map(|gateway| (gateway.name.as_str(), None));
        let mut vertices = BTreeMap::new();
        for (name, activity) in events.chain(activities).chain(gateways) {
            if name.is_empty() {
                return Err(BadGraph::Nameless);
            }
            if vertices.insert(name, activity).is_some() {
                return Err(BadGraph::Twice(name.to_owned()));
            }
        }
        if vertices.is_empty() {
            return Err(BadGraph::Empty);
        }
        let mut before: BTreeMap<&str, BTreeSet<&str>> =
            vertices.keys().map(|name| (*name, BTreeSet::new())).collect();
        for edge in &spec.edges {
            let (from, to) = (edge.obj1.as_str(), edge.obj2.as_str());
            if let Some(missing) = [from, to].into_iter().find(|name| !vertices.contains_key(name)) {
                return Err(BadGraph::Missing {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    missing: missing.to_owned(),
                });
            }
            before.entry(to).or_default().insert(from);
        }
        let graph = Graph { vertices, before };
        graph
            .cycle()
            .map_or(Ok(graph), |cycle| Err(BadGraph::Cycle(cycle)))
    }

    /// Every vertex, and what is done there; nothing for events and gateways.
    pub fn vertices(&self) -> impl Iterator<Item = (&'a str, Option<&'a Activity>)> {
        self.vertices.iter().map(|(name, activity)| (*name, *activity))
    }

    /// The vertices that may begin: they are not done, and all that come before them are.
    pub fn ready(&self, is_done: impl Fn(&str) -> bool) -> Vec<(&'a str, Option<&'a Activity>)> {
        let may_begin = |name: &str| {
            self.before
                .get(name)
                .is_none_or(|before| before.iter().all(|name| is_done(name)))
        };
        self.vertices()
            .filter(|(name, _)| !is_done(name) && may_begin(name))
            .collect()
    }

    /// The vertices of a cycle, each one before the next, if there is one.
    fn cycle(&self) -> Option<Vec<String>> {
        let mut left: BTreeMap<&str, BTreeSet<&str>> = self.before.clone();
        while let Some(name) = left
            .iter()
            .find(|(_, before)| before.is_empty())
            .map(|(name, _)| *name)
        {
            left.remove(name);
            for before in left.values_mut() {
                before.remove(name);
            }
        }
        // Every vertex that is left has one before it that is left: going back from any of them runs into a circle.
        let mut path = vec![*left.keys().next()?];
        loop {
            let last = path.last()?;
            let before = *left.get(last)?.first()?;
            if let Some(start) = path.iter().position(|name| *name == before) {
                let mut cycle = path.split_off(start);
                cycle.reverse();
                // Wherever it was entered, it is told from its first name on.
                let first = cycle.iter().enumerate().min_by_key(|(_, name)| **name)?.0;
                cycle.rotate_left(first);
                cycle.push(cycle.first()?);
                return Some(cycle.into_iter().map(str::to_owned).collect());
            }
            path.push(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadGraph, Graph};
    use crate::api::WorkflowSpec;

    /// `a>b b>c` and so on; vertices are what the edges name.
    fn spec(edges: &str) -> WorkflowSpec {
        let edges: Vec<(&str, &str)> = edges
            .split_whitespace()
            .filter_map(|edge| edge.split_once('>'))
            .collect();
        let names: std::collections::BTreeSet<&str> =
            edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        serde_json::from_value(serde_json::json!({
            "activities": names.iter().map(|name| serde_json::json!({"name": name})).collect::<Vec<_>>(),
            "edges": edges.iter().map(|(from, to)| serde_json::json!({"obj1": from, "obj2": to})).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    /// The waves in which a graph is run, if all of a wave end together.
    fn waves(edges: &str) -> String {
        let spec = spec(edges);
        let graph = Graph::new(&spec).unwrap();
        let (mut done, mut waves) = (Vec::new(), Vec::new());
        while let ready = graph.ready(|name| done.contains(&name.to_owned()))
            && !ready.is_empty()
        {
            let wave: Vec<String> = ready.iter().map(|(name, _)| (*name).to_owned()).collect();
            waves.push(wave.join(","));
            done.extend(wave);
        }
        waves.join(" ")
    }

    #[test]
    fn a_join_waits_for_all_that_lead_to_it() {
        assert_eq!(waves("a>b b>c"), "a b c");
        assert_eq!(waves("a>b a>c b>d c>d"), "a b,c d");
        // The short way to `z` is done long before the long one.
        assert_eq!(waves("a>z a>b b>c c>z"), "a b c z");
    }

    #[test]
    fn a_graph_that_cannot_end_is_refused() {
        let refusal = |edges: &str| Graph::new(&spec(edges)).unwrap_err().to_string();
        assert_eq!(refusal("a>a"), "a cycle: a -> a");
        assert_eq!(refusal("x>a a>b b>c c>a c>y"), "a cycle: a -> b -> c -> a");
    }

    #[test]
    fn names_are_unique_and_edges_lead_somewhere() {
        assert_eq!(Graph::new(&WorkflowSpec::default()).unwrap_err(), BadGraph::Empty);
        let mut twice = spec("a>b");
        twice.events.push(crate::api::Event { name: "a".to_owned() });
        assert_eq!(Graph::new(&twice).unwrap_err(), BadGraph::Twice("a".to_owned()));
        let mut lost = spec("a>b");
        lost.edges[0].obj2 = "c".to_owned();
        let said = Graph::new(&lost).unwrap_err().to_string();
        assert_eq!(said, "the edge \"a\" -> \"c\" names \"c\", which is not there");
    }
}
