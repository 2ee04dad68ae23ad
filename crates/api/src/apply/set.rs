//! Sets of field paths.
//!
//! A set is a tree: each level is a sorted list, so that two sets are combined in one walk over both, and a
//! change of a few fields touches a few branches. A path may be in the set without the paths below it, and
//! the other way round.

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

    /// Adds one path. The empty path, the whole object, belongs to nobody and is not kept.
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
        // The other set is usually the smaller one: what one request changed.
        for node in &other.nodes {
            match self.position(&node.element) {
                Ok(at) => {
                    self.nodes[at].member |= node.member;
                    self.nodes[at].below.add(&node.below);
                }
                Err(at) => self.nodes.insert(at, node.clone()),
            }
        }
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let (few, many) = (self.nodes.len(), other.nodes.len());
        let mut both = Self {
            nodes: Vec::with_capacity(few.min(many)),
        };
        for (mine, theirs) in Matching::new(&self.nodes, &other.nodes) {
            both.push(Node {
                element: mine.element.clone(),
                member: mine.member && theirs.member,
                below: mine.below.intersection(&theirs.below),
            });
        }
        both
    }

    /// The paths that are not in the other set. Only the path itself goes, not the paths below it.
    #[must_use]
    pub fn difference(&self, other: &FieldSet<'_>) -> Self {
        let mut rest = self.clone();
        rest.remove(other);
        rest
    }

    /// Takes out the paths of another set, but not the paths below them. Tells whether there were any.
    pub fn remove(&mut self, other: &FieldSet<'_>) -> bool {
        let mut removed = false;
        for theirs in &other.nodes {
            let Ok(at) = self.position(&theirs.element) else {
                continue;
            };
            let mine = &mut self.nodes[at];
            removed |= mine.member && theirs.member;
            mine.member &= !theirs.member;
            removed |= mine.below.remove(&theirs.below);
            if !mine.member && mine.below.is_empty() {
                self.nodes.remove(at);
            }
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
        for theirs in &other.nodes {
            let Ok(at) = self.position(&theirs.element) else {
                continue;
            };
            let mine = &mut self.nodes[at];
            if theirs.member {
                self.nodes.remove(at);
                continue;
            }
            mine.below.remove_trees(&theirs.below);
            if !mine.member && mine.below.is_empty() {
                self.nodes.remove(at);
            }
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
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
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

    /// Adds what is known of one step, whether or not it comes after all the others.
    pub(crate) fn push(&mut self, node: Node<'a>) {
        if !node.member && node.below.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < node.element) {
            self.nodes.push(node);
            return;
        }
        match self.position(&node.element) {
            Ok(at) => {
                self.nodes[at].member |= node.member;
                self.nodes[at].below.add(&node.below);
            }
            Err(at) => self.nodes.insert(at, node),
        }
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

    fn collect_paths(&self, prefix: &mut Vec<PathElement<'a>>, paths: &mut Vec<Path<'a>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(Path(path));
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.below.collect_paths(prefix, paths);
            prefix.pop();
        }
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

// --- Path ---

/// As messages show it: `.spec.containers[name="a"].image`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// The steps that two sorted levels share.
struct Matching<'s, 'a, 'b> {
    left: &'s [Node<'a>],
    right: &'s [Node<'b>],
}

// --- Matching ---

impl<'s, 'a, 'b> Matching<'s, 'a, 'b> {
    fn new(left: &'s [Node<'a>], right: &'s [Node<'b>]) -> Self {
        Self { left, right }
    }
}

impl<'s, 'a, 'b> Iterator for Matching<'s, 'a, 'b> {
    type Item = (&'s Node<'a>, &'s Node<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        while let (Some((left, lefts)), Some((right, rights))) =
            (self.left.split_first(), self.right.split_first())
        {
            match left.element.cmp(&right.element) {
                Ordering::Less => self.left = lefts,
                Ordering::Greater => self.right = rights,
                Ordering::Equal => {
                    (self.left, self.right) = (lefts, rights);
                    return Some((left, right));
                }
            }
        }
        None
    }
}
