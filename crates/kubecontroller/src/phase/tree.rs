//! Changes of whole trees of states.

use super::state::State;

/// Forgets the failures of a tree: nodes that failed become as if not begun, and so do objects that failed; what succeeded is
/// kept. `each` is told of every node that is cleared, with the path to it.
pub(super) fn clear_failed(
    state: &mut State,
    path: &mut Vec<String>,
    each: &mut dyn FnMut(&[String], &mut State),
) {
    if !state.failed && !state.fatal {
        return;
    }
    for (name, child) in &mut state.state {
        path.push(name.clone());
        clear_failed(child, path, each);
        path.pop();
    }
    for object in state.objects.iter_mut().filter(|object| object.error.is_some()) {
        object.error = None;
        object.done = false;
        (object.start_time, object.end_time) = (None, None);
    }
    state.done = false;
    state.failed = false;
    state.fatal = false;
    state.failures = 0;
    state.error = None;
    // The time of the phase begins anew with it: after a time-out it would be over at once.
    (state.start_time, state.end_time) = (None, None);
    each(path, state);
}
