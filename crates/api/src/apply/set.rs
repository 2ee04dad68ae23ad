//! Sets of field paths.
//!
//! A set is a tree: each level is a sorted list, so that two sets are combined in one walk over both, and a
//! change of a few fields touches a few branches. A path may be in the set without the paths below it, and
//! the other way round.
//!
//! Promises: to combine two sets costs at most a walk over both; where one is far smaller, a search for each of its
//! steps.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go Set, Union, Intersection, Difference, RecursiveDifference, Leaves
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/path.go Path

use std::{cmp::Ordering, fmt};

use super::element::PathElement;

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    /// Sorted by element, each once; none that is neither a member nor has anything below.
    pub(crate) nodes: Vec<Node<'a>>,
}

/// One step, and what the set holds there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    pub(crate) element: PathElement<'a>,
    /// Whether the path that ends here is in the set.
    pub(crate) member: bool,
    /// The longer paths.
    pub(crate) below: FieldSet<'a>,
}

/// The steps of one level, which may be found in any order.
#[derive(Debug, Default)]
pub(crate) struct FieldSetBuilder<'a> {
    nodes: Vec<Node<'a>>,
}

/// A way from the root of an object to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path<'a>(pub Vec<PathElement<'a>>);

// --- FieldSet ---

impl<'a> FieldSet<'a> {
    /// The set without paths.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The set of these paths of field names. The paths that lead there are not part of it.
    pub fn of_fields(paths: &[&[&'a str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path.iter().map(|name| PathElement::field(*name)));
        }
        set
    }

    /// Adds one path. The empty path, the whole object, has no owner and is not kept.
    pub fn insert(&mut self, path: impl IntoIterator<Item = PathElement<'a>>) {
        let mut path = path.into_iter();
        let Some(mut element) = path.next() else { return };
        let mut level = self;
        for next in path {
            level = &mut level.descend(element).below;
            element = next;
        }
        level.descend(element).member = true;
    }

    /// Whether a path is in the set.
    pub fn contains(&self, path: &[PathElement<'_>]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        let mut level = self;
        for element in parents {
            let Some(node) = level.get(element) else {
                return false;
            };
            level = &node.below;
        }
        level.get(last).is_some_and(|node| node.member)
    }

    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member) + node.below.len())
            .sum()
    }

    /// The paths of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.add(other);
        all
    }

    /// Adds the paths of another set.
    pub fn add(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        let mut missing = Vec::new();
        let mut next = 0;
        for (mine, theirs) in shared_steps(&self.nodes, &other.nodes) {
            missing.extend_from_slice(&other.nodes[next..theirs]);
            next = theirs + 1;
            self.nodes[mine].member |= other.nodes[theirs].member;
            self.nodes[mine].below.add(&other.nodes[theirs].below);
        }
        missing.extend_from_slice(&other.nodes[next..]);
        if !missing.is_empty() {
            // Two sorted runs: the sort merges them.
            self.nodes.append(&mut missing);
            self.nodes.sort_by(|left, right| left.element.cmp(&right.element));
        }
    }

    /// Takes in the paths of another set, which is not copied if this one is empty.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            self.add(&other);
        }
    }

    /// The paths of any of the sets. As many small sets are added at once, none is walked twice.
    pub fn union_of<'s>(sets: impl IntoIterator<Item = &'s Self>) -> Self
    where
        'a: 's,
    {
        Self::union_of_nodes(sets.into_iter().flat_map(|set| &set.nodes).collect())
    }

    fn union_of_nodes(mut nodes: Vec<&Node<'a>>) -> Self {
        nodes.sort_by(|left, right| left.element.cmp(&right.element));
        let mut merged = Vec::with_capacity(nodes.len());
        for same in nodes.chunk_by(|left, right| left.element == right.element) {
            if let [only] = same {
                merged.push((*only).clone());
                continue;
            }
            let below = same.iter().flat_map(|node| &node.below.nodes).collect();
            merged.push(Node {
                element: same[0].element.clone(),
                member: same.iter().any(|node| node.member),
                below: Self::union_of_nodes(below),
            });
        }
        Self { nodes: merged }
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let mut both = Self::new();
        for (mine, theirs) in shared_steps(&self.nodes, &other.nodes) {
            let mine = &self.nodes[mine];
            let theirs = &other.nodes[theirs];
            both.push(Node {
                element: mine.element.clone(),
                member: mine.member && theirs.member,
                below: mine.below.intersection(&theirs.below),
            });
        }
        both
    }

    /// The paths that are not in the other set. Only the path itself is removed, not the paths below it.
    #[must_use]
    pub fn difference(&self, other: &FieldSet<'_>) -> Self {
        let mut rest = self.clone();
        rest.remove(other);
        rest
    }

    /// Takes out the paths of another set, but not the paths below them. Returns whether there were any.
    pub fn remove(&mut self, other: &FieldSet<'_>) -> bool {
        let mut removed = false;
        let mut emptied = false;
        for (mine, theirs) in shared_steps(&self.nodes, &other.nodes) {
            let mine = &mut self.nodes[mine];
            let theirs = &other.nodes[theirs];
            removed |= mine.member && theirs.member;
            mine.member &= !theirs.member;
            removed |= mine.below.remove(&theirs.below);
            emptied |= mine.is_empty();
        }
        if emptied {
            self.nodes.retain(|node| !node.is_empty());
        }
        removed
    }

    /// The paths that are not in the other set, nor below a path of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet<'_>) -> Self {
        let mut rest = self.clone();
        rest.remove_trees(other);
        rest
    }

    /// Takes out the paths of another set, and all below them.
    pub fn remove_trees(&mut self, other: &FieldSet<'_>) {
        let mut emptied = false;
        for (mine, theirs) in shared_steps(&self.nodes, &other.nodes) {
            let mine = &mut self.nodes[mine];
            let theirs = &other.nodes[theirs];
            if theirs.member {
                mine.member = false;
                mine.below = Self::new();
            } else {
                mine.below.remove_trees(&theirs.below);
            }
            emptied |= mine.is_empty();
        }
        if emptied {
            self.nodes.retain(|node| !node.is_empty());
        }
    }

    /// The paths with nothing below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            member: node.below.is_empty(),
            below: node.below.leaves(),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Whether every path is in the other set too.
    pub fn is_subset(&self, other: &FieldSet<'_>) -> bool {
        let mut theirs = other.nodes.iter();
        self.nodes.iter().all(|mine| {
            let found = theirs.find(|theirs| theirs.element >= mine.element);
            found.is_some_and(|theirs| {
                theirs.element == mine.element
                    && (theirs.member || !mine.member)
                    && mine.below.is_subset(&theirs.below)
            })
        })
    }

    /// All paths: at each level first those that end there, then the longer ones.
    pub fn paths(&self) -> Vec<Path<'a>> {
        let mut paths = Vec::with_capacity(self.len());
        self.visit_paths(&mut |path| {
            paths.push(Path(path.to_vec()));
            true
        });
        paths
    }

    /// Shows all paths in this order, until `see` returns false; whether all were shown.
    pub(crate) fn visit_paths(&self, see: &mut impl FnMut(&[PathElement<'a>]) -> bool) -> bool {
        self.visit_level(&mut Vec::new(), see)
    }

    /// The paths below a step, without that step.
    pub fn below(&self, element: &PathElement<'_>) -> Option<&Self> {
        self.get(element)
            .map(|node| &node.below)
            .filter(|below| !below.is_empty())
    }

    /// The same set, holding copies of what it borrowed.
    pub fn into_owned(self) -> FieldSet<'static> {
        let nodes = self.nodes.into_iter().map(|node| Node {
            element: node.element.into_owned(),
            member: node.member,
            below: node.below.into_owned(),
        });
        FieldSet {
            nodes: nodes.collect(),
        }
    }

    pub(crate) fn get(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        self.position(element).ok().map(|at| &self.nodes[at])
    }

    /// Adds what is known of one step, which is the last.
    pub(crate) fn push(&mut self, node: Node<'a>) {
        if node.is_empty() {
            return;
        }
        debug_assert!(self.nodes.last().is_none_or(|last| last.element < node.element));
        self.nodes.push(node);
    }

    fn descend(&mut self, element: PathElement<'a>) -> &mut Node<'a> {
        let at = match self.position(&element) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(
                    at,
                    Node {
                        element,
                        member: false,
                        below: Self::new(),
                    },
                );
                at
            }
        };
        &mut self.nodes[at]
    }

    fn position(&self, element: &PathElement<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    fn visit_level(
        &self,
        prefix: &mut Vec<PathElement<'a>>,
        see: &mut impl FnMut(&[PathElement<'a>]) -> bool,
    ) -> bool {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(node.element.clone());
            let continues = see(prefix);
            prefix.pop();
            if !continues {
                return false;
            }
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            prefix.push(node.element.clone());
            let continues = node.below.visit_level(prefix, see);
            prefix.pop();
            if !continues {
                return false;
            }
        }
        true
    }
}

impl<'a> FromIterator<Path<'a>> for FieldSet<'a> {
    fn from_iter<I: IntoIterator<Item = Path<'a>>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path.0);
        }
        set
    }
}

// --- Node ---

impl Node<'_> {
    /// Whether it stands for no path.
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

// --- FieldSetBuilder ---

impl<'a> FieldSetBuilder<'a> {
    /// Capacity for so many path elements.
    pub(crate) fn with_capacity(steps: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(steps),
        }
    }

    /// Adds what is known of one step, in any order.
    pub(crate) fn push(&mut self, node: Node<'a>) {
        if !node.is_empty() {
            self.nodes.push(node);
        }
    }

    /// Adds all that another level knows.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.nodes.append(&mut other.nodes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The set.
    pub(crate) fn finish(mut self) -> FieldSet<'a> {
        let sorted = self
            .nodes
            .is_sorted_by(|left, right| left.element < right.element);
        if !sorted {
            self.nodes.sort_by(|left, right| left.element.cmp(&right.element));
            let mut merged: Vec<Node<'a>> = Vec::with_capacity(self.nodes.len());
            for node in self.nodes {
                match merged.last_mut() {
                    Some(last) if last.element == node.element => {
                        last.member |= node.member;
                        last.below.add(&node.below);
                    }
                    _ => merged.push(node),
                }
            }
            self.nodes = merged;
        }
        FieldSet { nodes: self.nodes }
    }
}

// --- Path ---

/// As messages show it: `.spec.containers[name="a"].image`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// Where the steps stand that two sorted levels share.
fn shared_steps(left: &[Node<'_>], right: &[Node<'_>]) -> Vec<(usize, usize)> {
    // From here on a search for each step of the smaller level is cheaper than a walk over both.
    const SKEW: usize = 16;
    let find = |nodes: &[Node<'_>], element: &PathElement<'_>| {
        nodes.binary_search_by(|node| node.element.cmp(element)).ok()
    };
    if left.len() < right.len() / SKEW {
        let found = left.iter().enumerate();
        return found
            .filter_map(|(at, node)| Some((at, find(right, &node.element)?)))
            .collect();
    }
    if right.len() < left.len() / SKEW {
        let found = right.iter().enumerate();
        return found
            .filter_map(|(at, node)| Some((find(left, &node.element)?, at)))
            .collect();
    }
    let mut shared = Vec::new();
    let mut mine = 0;
    let mut theirs = 0;
    while mine < left.len() && theirs < right.len() {
        match left[mine].element.cmp(&right[theirs].element) {
            Ordering::Less => mine += 1,
            Ordering::Greater => theirs += 1,
            Ordering::Equal => {
                shared.push((mine, theirs));
                mine += 1;
                theirs += 1;
            }
        }
    }
    shared
}
