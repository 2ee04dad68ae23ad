//! The kinds of the `events.k8s.io` group, one file per kind.

use crate::{
    kinds::core::event::{Event, Form},
    rules::Rules,
};

// upstream: pkg/registry/core/event/strategy.go eventStrategy; both groups share one strategy and storage
/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Event" => &Event(Form::Events),
        _ => return None,
    })
}
