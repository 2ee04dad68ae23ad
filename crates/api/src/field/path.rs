//! The place of a field: `spec.containers[0].name`.

use std::fmt;

/// The way from the root of an object to one of its fields.
///
/// A chain of borrowed steps, so that rules can pass places along without making strings of them: most objects
/// are valid, and then nobody reads the place.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p> {
    /// `None` at the root.
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    /// No place at all; what is below it begins anew.
    Nowhere,
    Name(&'p str),
    Index(usize),
    Key(&'p str),
}

// --- Path ---

impl Path<'_> {
    /// No place: reads `<nil>`, and its children are roots.
    pub const NIL: Path<'static> = Path {
        parent: None,
        step: Step::Nowhere,
    };
}

impl<'p> Path<'p> {
    /// A field at the root.
    pub fn new(name: &'p str) -> Self {
        Path {
            parent: None,
            step: Step::Name(name),
        }
    }

    /// A field of the object at this place.
    pub fn child<'c>(&'c self, name: &'c str) -> Path<'c> {
        Path {
            parent: Some(self),
            step: Step::Name(name),
        }
    }

    /// An item of the list at this place.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// An entry of the map at this place.
    pub fn key<'c>(&'c self, key: &'c str) -> Path<'c> {
        Path {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// The place above, unless that is nowhere.
    fn above(&self) -> Option<&Path<'p>> {
        self.parent.filter(|parent| !matches!(parent.step, Step::Nowhere))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let above = self.above();
        if let Some(above) = above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Nowhere => f.write_str("<nil>"),
            // A name that is empty reads like a key that is.
            Step::Name("") => f.write_str("[]"),
            Step::Name(name) if above.is_some() => write!(f, ".{name}"),
            Step::Name(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dotted_and_subscripts_bracketed() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        assert_eq!(
            containers.index(2).child("name").to_string(),
            "spec.containers[2].name"
        );
        assert_eq!(
            spec.child("nodeSelector").key("a.b/c").to_string(),
            "spec.nodeSelector[a.b/c]"
        );
    }

    #[test]
    fn a_place_without_a_name_is_shown_as_one() {
        assert_eq!(Path::new("").to_string(), "[]");
        assert_eq!(Path::new("a").child("").child("b").to_string(), "a[].b");
    }

    #[test]
    fn below_nowhere_begins_a_new_root() {
        assert_eq!(Path::NIL.to_string(), "<nil>");
        assert_eq!(
            Path::NIL.child("values").index(0).key("k").to_string(),
            "values[0][k]"
        );
    }
}
