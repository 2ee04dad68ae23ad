//! Operations on trees of handler states.

use super::state::HandlerState;

/// Clears the failures in a tree: failed handlers and failed objects become as if they had never started; succeeded ones are
/// kept. `each` is called for every cleared state with its path.
pub(super) fn clear_failed(
    state: &mut HandlerState,
    path: &mut Vec<String>,
    each: &mut dyn FnMut(&[String], &mut HandlerState),
) {
    if !state.completion().is_failure() {
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
    state.clear_failure();
    each(path, state);
}
