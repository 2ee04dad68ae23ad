//! The kinds of the `events.k8s.io` group, a file each.

use crate::{
    kinds::core::event::{Event, Form},
    rules::Rules,
};

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Event" => &Event(Form::Events),
        _ => return None,
    })
}
