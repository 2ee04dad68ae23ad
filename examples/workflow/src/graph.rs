//! The graph of a workflow.
//!
//! Guarantee: a vertex is ready only when all its predecessors are done.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Activity, WorkflowSpec};

/// A valid graph: without cycles and without edges to unknown vertices.
#[derive(Debug)]
pub struct Graph<'a> {
    /// The vertices and their activities; none for events and gateways.
    vertices: BTreeMap<&'a str, Option<&'a Activity>>,
    /// The predecessors of each vertex.
    before: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Why a graph is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The graph is empty.
    #[error("the workflow has no vertices")]
    Empty,
    /// A vertex has no name.
    #[error("a vertex has no name")]
    Nameless,
    /// Two vertices have the same name.
    #[error("duplicate vertex {0:?}")]
    DuplicateVertex(String),
    /// An edge refers to an unknown vertex.
    #[error("unknown vertex {missing:?} in edge {from:?} -> {to:?}")]
    UnknownVertex {
        /// The predecessor.
        from: String,
        /// The successor.
        to: String,
        /// The unknown one of the two.
        missing: String,
    },
    /// A cycle; the last vertex is the first.
    #[error("cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

// --- Graph ---

impl<'a> Graph<'a> {
    /// Builds and validates the graph of a spec.
    pub fn new(spec: &'a WorkflowSpec) -> Result<Self, GraphError> {
        let events = spec.events.iter().map(|event| (event.name.as_str(), None));
        let activities = spec
            .activities
            .iter()
            .map(|activity| (activity.name.as_str(), Some(activity)));
        let gateways = spec.gateways.iter().map(|gateway| (gateway.name.as_str(), None));
        let mut vertices = BTreeMap::new();
        for (name, activity) in events.chain(activities).chain(gateways) {
            if name.is_empty() {
                return Err(GraphError::Nameless);
            }
            if vertices.insert(name, activity).is_some() {
                return Err(GraphError::DuplicateVertex(name.to_owned()));
            }
        }
        if vertices.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut before: BTreeMap<&str, BTreeSet<&str>> =
            vertices.keys().map(|name| (*name, BTreeSet::new())).collect();
        for edge in &spec.edges {
            let from = edge.obj1.as_str();
            let to = edge.obj2.as_str();
            if let Some(missing) = [from, to].into_iter().find(|name| !vertices.contains_key(name)) {
                return Err(GraphError::UnknownVertex {
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
            .map_or(Ok(graph), |cycle| Err(GraphError::Cycle(cycle)))
    }

    /// The vertices and their activities; none for events and gateways.
    pub fn vertices(&self) -> impl Iterator<Item = (&'a str, Option<&'a Activity>)> {
        self.vertices.iter().map(|(name, activity)| (*name, *activity))
    }

    /// The vertices that can start: they are not done, but all their predecessors are.
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

    /// The vertices of a cycle in order, if there is one.
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
        // Every remaining vertex has a remaining predecessor, so following predecessors ends in a cycle.
        let mut path = vec![*left.keys().next()?];
        loop {
            let last = path.last()?;
            let before = *left.get(last)?.first()?;
            if let Some(start) = path.iter().position(|name| *name == before) {
                let mut cycle = path.split_off(start);
                cycle.reverse();
                // The cycle starts with its first name in alphabetical order, so that the error is deterministic.
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
    use super::{Graph, GraphError};
    use crate::api::WorkflowSpec;

    /// A spec from edges such as `a>b b>c`.
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

    /// The successive sets of ready vertices, if all vertices of a set end together.
    fn waves(edges: &str) -> String {
        let spec = spec(edges);
        let graph = Graph::new(&spec).unwrap();
        let mut done = Vec::new();
        let mut waves = Vec::new();
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
    fn join_waits_for_all_predecessors() {
        assert_eq!(waves("a>b b>c"), "a b c");
        assert_eq!(waves("a>b a>c b>d c>d"), "a b,c d");
        // The short path to `z` is done long before the long one.
        assert_eq!(waves("a>z a>b b>c c>z"), "a b c z");
    }

    #[test]
    fn rejects_cycles() {
        let error = |edges: &str| Graph::new(&spec(edges)).unwrap_err().to_string();
        assert_eq!(error("a>a"), "cycle: a -> a");
        assert_eq!(error("x>a a>b b>c c>a c>y"), "cycle: a -> b -> c -> a");
    }

    #[test]
    fn rejects_duplicate_and_unknown_vertices() {
        assert_eq!(
            Graph::new(&WorkflowSpec::default()).unwrap_err(),
            GraphError::Empty
        );
        let mut twice = spec("a>b");
        twice.events.push(crate::api::Event { name: "a".to_owned() });
        assert_eq!(
            Graph::new(&twice).unwrap_err(),
            GraphError::DuplicateVertex("a".to_owned())
        );
        let mut lost = spec("a>b");
        lost.edges[0].obj2 = "c".to_owned();
        let error = Graph::new(&lost).unwrap_err().to_string();
        assert_eq!(error, "unknown vertex \"c\" in edge \"a\" -> \"c\"");
    }
}
