//! The sizes of objects, in place of those that the tests of costs compare.

use super::ENTRIES;

pub(super) fn few() -> usize {
    ENTRIES
}

pub(super) fn many() -> usize {
    ENTRIES
}
