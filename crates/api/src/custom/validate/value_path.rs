//! Location of a value in schema errors: `spec.list[0].name`, and `.key` for a key of a map at the root.

use std::fmt;

/// The way from the top to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValuePath<'p> {
    Top,
    Field(&'p ValuePath<'p>, &'p str),
    Key(&'p ValuePath<'p>, &'p str),
    Index(&'p ValuePath<'p>, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValuePath::Top => Ok(()),
            ValuePath::Field(ValuePath::Top, name) => f.write_str(name),
            ValuePath::Field(above, name) | ValuePath::Key(above, name) => write!(f, "{above}.{name}"),
            ValuePath::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}
