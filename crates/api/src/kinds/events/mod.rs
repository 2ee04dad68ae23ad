//! The kinds of the `events.k8s.io` group, a file each.

use crate::{
    kinds::core::event::{Event, Form},
    strategy::RestStrategy,
};

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Event" => &Event(Form::Events),
        _ => return None,
    })
}
