//! Operations on trees of handler states.

use super::state::HandlerState;

/// Clears the failures in a tree: failed handlers and failed objects become as if they had never started; succeeded ones are
/// kept. `each` is called for every cleared state with its path.
pub(super) fn clear_failed(
    state: &mut HandlerState,
    path: &mut Vec<String>,
    each: &mut dyn FnMut(&[String], &mut HandlerState),
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
        object.start_time = None;
        object.end_time = None;
    }
    state.done = false;
    state.failed = false;
    state.fatal = false;
    state.failures = 0;
    state.error = None;
    // The start time is cleared too: otherwise a phase that timed out would time out again at once.
    state.start_time = None;
    state.end_time = None;
    each(path, state);
}
