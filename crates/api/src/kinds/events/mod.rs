//! The kinds of the `events.k8s.io` group, one file per kind.

use crate::{
    kinds::core::event::{Event, Form},
    strategy::RestStrategy,
};

// upstream: pkg/registry/core/event/strategy.go eventStrategy; both groups share one strategy and storage
/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Event" => &Event(Form::Events),
        _ => return None,
    })
}
