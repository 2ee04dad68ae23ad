//! The revisions of sets: a record of each template that a set had, the newest of which is the one of now.
//!
//! ```text
//! order    which revision is the one of a template, what number it gets, which are too many
//! archive  where they are: made, numbered anew, taken in, deleted
//! ```

mod archive;
mod order;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    archive::{Archive, New, keys},
    order::{History, Newest, spare},
};
