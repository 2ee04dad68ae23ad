//! The position of the decoder in a body: a linked list on the stack, formatted only for errors.

use std::fmt;

/// A step and those before it.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    /// The object itself.
    Root,
    /// A field of a struct.
    Field {
        before: &'p Path<'p>,
        /// The name of the struct.
        of: &'static str,
        name: &'static str,
    },
    /// A key of a map.
    Key { before: &'p Path<'p>, key: &'p str },
    /// An item of a list.
    Item { before: &'p Path<'p>, index: usize },
}

/// A path with one more name.
pub(super) struct PathWithName<'p>(pub(super) &'p Path<'p>, pub(super) &'p str);

// --- Path ---

impl<'p> Path<'p> {
    fn before(&self) -> Option<&'p Path<'p>> {
        match self {
            Self::Root => None,
            Self::Field { before, .. } | Self::Key { before, .. } | Self::Item { before, .. } => Some(before),
        }
    }

    /// How a message about a wrong type names the field: the innermost struct, then the names of all
    /// fields on the way; keys and items are not reported.
    pub(super) fn go_location(&self) -> String {
        let mut names = Vec::new();
        let mut owner = None;
        let mut step = Some(self);
        while let Some(at) = step {
            if let Self::Field { of, name, .. } = at {
                owner.get_or_insert(*of);
                names.push(*name);
            }
            step = at.before();
        }
        names.reverse();
        match owner {
            Some(owner) => format!("Go struct field {owner}.{}", names.join(".")),
            None => "Go value".to_owned(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Paths are short but for lists of lists; those are bounded by the depth of bodies.
        if let Some(before) = self.before() {
            before.fmt(f)?;
        }
        let dot = |f: &mut fmt::Formatter<'_>| match self.before() {
            Some(Self::Root) | None => Ok(()),
            Some(_) => f.write_str("."),
        };
        match self {
            Self::Root => Ok(()),
            Self::Field { name, .. } => dot(f).and_then(|()| f.write_str(name)),
            Self::Key { key, .. } => dot(f).and_then(|()| f.write_str(key)),
            Self::Item { index, .. } => write!(f, "[{index}]"),
        }
    }
}

// --- PathWithName ---

impl fmt::Display for PathWithName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Path::Key {
            before: self.0,
            key: self.1,
        }
        .fmt(f)
    }
}
