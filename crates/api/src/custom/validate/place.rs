//! Where a value stands, as errors of schemas say it: `spec.list[0].name`, and `.key` for a key of a map at the top.

use std::fmt;

/// The way from the top to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'p> {
    Top,
    Field(&'p Place<'p>, &'p str),
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Top => Ok(()),
            Place::Field(Place::Top, name) => f.write_str(name),
            Place::Field(above, name) | Place::Key(above, name) => write!(f, "{above}.{name}"),
            Place::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}
