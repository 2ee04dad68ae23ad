//! One run of a tree of handlers.
//!
//! The resulting state mirrors the tree: it has an entry for each child, even if the child has not started. Entries of
//! children that the tree no longer declares are dropped.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{FutureExt, join_all};
use tokio::time::timeout;
use tracing::warn;

use super::{
    context::HandlerContext,
    error::{PhaseError, Severity},
    handler::{BoxedFuture, HandlerKind, ListFn, ObjectsFn, PhaseHandler},
    state::{Completion, HandlerState, ObjectState, stamp},
    step::{Change, Step},
};
use crate::panic_message;

/// Decides whether an unclassified error is fatal.
pub(super) type IsFatal = Arc<dyn Fn(&PhaseError) -> bool + Send + Sync>;

/// The result of a handler's run.
pub(super) struct HandlerOutcome<R> {
    pub(super) state: HandlerState,
    pub(super) changes: Vec<Change<R>>,
    /// The next phase that the handler itself chose; never that of a child.
    pub(super) next: Option<String>,
    /// The delay that the handler asked for. For a composite: the shortest delay, if all unfinished children asked for one.
    pub(super) after: Option<Duration>,
    /// The delays that unfinished children asked for.
    waits: Vec<Option<Duration>>,
}

/// Runs a handler. `context.last()` is its state after the previous run.
pub(super) fn run<'a, R: Clone + Send + Sync + 'static>(
    is_fatal: &'a IsFatal,
    handler: &'a PhaseHandler<R>,
    context: HandlerContext<R>,
) -> std::pin::Pin<Box<dyn Future<Output = HandlerOutcome<R>> + Send + 'a>> {
    Box::pin(async move {
        let now = context.clock().now();
        let mut state = HandlerState::default();
        state.start_time.clone_from(&context.last().start_time);
        state.begin(now);
        match &handler.kind {
            HandlerKind::Function(run) => {
                let step = guarded(handler, &context, run(context.clone())).await;
                function(is_fatal, handler, &context, state, step)
            }
            HandlerKind::Objects { list, work, batch } => {
                objects(is_fatal, handler, &context, state, list, work, *batch).await
            }
            HandlerKind::Serial(children) | HandlerKind::Parallel(children) if children.is_empty() => {
                state.end_badly(now, format!("Composite handler {} has no children", handler.name));
                HandlerOutcome::of(state)
            }
            HandlerKind::Serial(children) => serial(is_fatal, children, &context, state).await,
            HandlerKind::Parallel(children) => parallel(is_fatal, children, &context, state).await,
        }
    })
}

fn function<R: Clone>(
    is_fatal: &IsFatal,
    handler: &PhaseHandler<R>,
    context: &HandlerContext<R>,
    mut state: HandlerState,
    step: Result<Step<R>, PhaseError>,
) -> HandlerOutcome<R> {
    let now = context.clock().now();
    match step.and_then(|step| with_checked_changes(handler, context, step)) {
        Ok(step) => {
            state.warning = step.warning;
            if step.done {
                state.complete(Completion::Succeeded, now);
            }
            let after = step.after.filter(|_| !step.done);
            let changes = step.changes;
            let next = step.next;
            HandlerOutcome {
                changes,
                next,
                after,
                ..HandlerOutcome::of(state)
            }
        }
        Err(error) => {
            fail(is_fatal, &mut state, &error, context);
            HandlerOutcome::of(state)
        }
    }
}

async fn objects<R: Clone>(
    is_fatal: &IsFatal,
    handler: &PhaseHandler<R>,
    context: &HandlerContext<R>,
    mut state: HandlerState,
    list: &ListFn<R>,
    work: &ObjectsFn<R>,
    size: usize,
) -> HandlerOutcome<R> {
    state.objects.clone_from(&context.last().objects);
    if state.objects.is_empty() {
        let listed = guarded(handler, context, list(context.clone())).await;
        match listed.and_then(distinct) {
            Ok(objects) => state.objects = objects,
            Err(error) => {
                fail(is_fatal, &mut state, &error, context);
                return HandlerOutcome::of(state);
            }
        }
    }
    let batch = batch(&mut state.objects, size, context);
    let mut ran = HandlerOutcome::of(state);
    if !batch.is_empty() {
        let step = guarded(handler, context, work(context.clone(), batch)).await;
        match step.and_then(|step| with_checked_changes(handler, context, step)) {
            Ok(step) => {
                merge(&mut ran.state.objects, step.objects, context);
                ran.changes = step.changes;
                ran.after = step.after;
                ran.state.warning = step.warning;
            }
            Err(error) => {
                fail(is_fatal, &mut ran.state, &error, context);
                return ran;
            }
        }
    }
    roll_up(&mut ran.state, context);
    ran
}

async fn serial<R: Clone + Send + Sync + 'static>(
    is_fatal: &IsFatal,
    children: &[PhaseHandler<R>],
    context: &HandlerContext<R>,
    state: HandlerState,
) -> HandlerOutcome<R> {
    let mut all = HandlerOutcome::of(state);
    // The object with the changes of the children that have run: each child sees those of its predecessors.
    let mut seen = context.shared_resource();
    let mut stopped = false;
    for child in children {
        let last = child_state(child, context.last());
        let ran = if stopped || last.completion().is_end() {
            HandlerOutcome::of(last)
        } else {
            run(
                is_fatal,
                child,
                context.at(Arc::clone(&seen), &last, context.cancel().clone()),
            )
            .await
        };
        for change in &ran.changes {
            change(Arc::make_mut(&mut seen));
        }
        stopped |= ran.state.completion() != Completion::Succeeded;
        all.take(child, ran);
    }
    all.finish(context)
}

async fn parallel<R: Clone + Send + Sync + 'static>(
    is_fatal: &IsFatal,
    children: &[PhaseHandler<R>],
    context: &HandlerContext<R>,
    state: HandlerState,
) -> HandlerOutcome<R> {
    let mut all = HandlerOutcome::of(state);
    let cancel = context.cancel().child_token();
    let runs = children.iter().map(|child| async {
        let last = child_state(child, context.last());
        if last.completion().is_end() {
            return HandlerOutcome::of(last);
        }
        let ran = run(
            is_fatal,
            child,
            context.at(context.shared_resource(), &last, cancel.clone()),
        )
        .await;
        if ran.state.completion().is_failure() {
            cancel.cancel();
        }
        ran
    });
    for (child, ran) in children.iter().zip(join_all(runs).await) {
        all.take(child, ran);
    }
    all.finish(context)
}

/// Awaits a handler. A panic becomes a fatal error; after cancellation the handler has its grace period to return.
async fn guarded<R, T>(
    handler: &PhaseHandler<R>,
    context: &HandlerContext<R>,
    run: BoxedFuture<Result<T, PhaseError>>,
) -> Result<T, PhaseError> {
    let mut run = AssertUnwindSafe(run).catch_unwind();
    let ended = tokio::select! {
        biased;
        ended = &mut run => ended,
        () = context.cancelled() => match timeout(handler.grace, run).await {
            Ok(ended) => ended,
            Err(_) => return Err(PhaseError::cancelled()),
        },
    };
    ended.unwrap_or_else(|panic| Err(panicked(handler, &*panic)))
}

/// Applies the changes to a copy first: a panic in one of them counts as a panic of the handler.
fn with_checked_changes<R: Clone>(
    handler: &PhaseHandler<R>,
    context: &HandlerContext<R>,
    step: Step<R>,
) -> Result<Step<R>, PhaseError> {
    if !step.changes.is_empty() {
        let mut copy = context.resource().clone();
        apply_changes(&step.changes, &mut copy).map_err(|panic| panicked(handler, &*panic))?;
    }
    Ok(step)
}

/// Applies changes; the error is the payload of a panic.
pub(super) fn apply_changes<R>(changes: &[Change<R>], object: &mut R) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| {
        for change in changes {
            change(object);
        }
    }))
}

fn panicked<R>(handler: &PhaseHandler<R>, panic: &(dyn Any + Send)) -> PhaseError {
    let text = panic_message(panic);
    PhaseError::fatal(format!("handler {} panicked: {text}", handler.name))
}

fn fail<R>(is_fatal: &IsFatal, state: &mut HandlerState, error: &PhaseError, context: &HandlerContext<R>) {
    let fatal = match error.severity() {
        Severity::Cancelled => return,
        Severity::Fatal => true,
        Severity::Retry => false,
        Severity::Undecided => is_fatal(error),
    };
    if fatal {
        state.end_badly(context.clock().now(), error.to_string());
    } else {
        state.retry(error.to_string());
    }
}

/// The last state of a child.
fn child_state<R>(child: &PhaseHandler<R>, parent: &HandlerState) -> HandlerState {
    parent
        .state
        .get(&child.name)
        .cloned()
        .unwrap_or_else(|| child.blank())
}

/// The completion of a composite with two children. A fatal failure ends it; it succeeds when both have succeeded.
fn combine(one: Completion, other: Completion) -> Completion {
    match (one, other) {
        (Completion::Failed, _) | (_, Completion::Failed) => Completion::Failed,
        (Completion::Retrying, _) | (_, Completion::Retrying) => Completion::Retrying,
        (Completion::Succeeded, Completion::Succeeded) => Completion::Succeeded,
        _ => Completion::Unfinished,
    }
}

// --- objects ---

fn distinct(objects: Vec<ObjectState>) -> Result<Vec<ObjectState>, PhaseError> {
    let mut ids: Vec<&str> = objects.iter().map(|object| object.id.as_str()).collect();
    ids.sort_unstable();
    if let Some([twin, _]) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PhaseError::fatal(format!("two objects have the id {twin:?}")));
    }
    Ok(objects)
}

/// The next batch, marked as started: the group of the first unfinished object, or up to `size` objects without a group.
fn batch<R>(objects: &mut [ObjectState], size: usize, context: &HandlerContext<R>) -> Vec<ObjectState> {
    let Some(first) = objects.iter().find(|object| !object.done) else {
        return Vec::new();
    };
    let group = first.group.clone();
    let limit = if group.is_empty() && size > 0 {
        size
    } else {
        usize::MAX
    };
    let now = stamp(context.clock().now());
    let unfinished = objects
        .iter_mut()
        .filter(|object| !object.done && object.group == group);
    let batch = unfinished.take(limit).map(|object| {
        object.start_time.get_or_insert_with(|| now.clone());
        object.clone()
    });
    batch.collect()
}

fn merge<R>(objects: &mut [ObjectState], results: Vec<ObjectState>, context: &HandlerContext<R>) {
    for result in results {
        let Some(object) = objects
            .iter_mut()
            .find(|object| object.id == result.id && !object.done)
        else {
            warn!(
                id = result.id,
                phase = context.phase(),
                "ignored result for an object that is not in the batch"
            );
            continue;
        };
        object.handle_id = result.handle_id;
        object.warning = result.warning;
        object.error = result.error;
        object.done = result.done;
        object.end_time = result.done.then(|| stamp(context.clock().now()));
    }
}

/// Ends the handler if all objects are done, with their errors and warnings.
fn roll_up<R>(state: &mut HandlerState, context: &HandlerContext<R>) {
    if state.objects.iter().any(|object| !object.done) {
        return;
    }
    let now = context.clock().now();
    let join = |message: fn(&ObjectState) -> Option<&str>| {
        let messages = state
            .objects
            .iter()
            .filter_map(|object| Some(format!("{}: {}", object.id, message(object)?)));
        let messages: Vec<String> = messages.collect();
        (!messages.is_empty()).then(|| messages.join("; "))
    };
    if let Some(errors) = join(|object| object.error.as_deref()) {
        state.end_badly(now, errors);
        return;
    }
    let warnings = join(|object| object.warning.as_deref());
    state.warning = warnings.or_else(|| state.warning.take());
    state.complete(Completion::Succeeded, now);
}

// --- HandlerOutcome ---

impl<R> HandlerOutcome<R> {
    fn of(state: HandlerState) -> Self {
        HandlerOutcome {
            state,
            changes: Vec::new(),
            next: None,
            after: None,
            waits: Vec::new(),
        }
    }

    fn take(&mut self, child: &PhaseHandler<R>, ran: HandlerOutcome<R>) {
        if let Some(next) = ran.next {
            warn!(
                child = child.name,
                next, "ignored next phase chosen by a child handler"
            );
        }
        self.changes.extend(ran.changes);
        if ran.state.start_time.is_some() && !ran.state.completion().is_end() {
            self.waits.push(ran.after);
        }
        self.state.state.insert(child.name.clone(), ran.state);
    }

    /// Derives the state of a composite from its children.
    fn finish(mut self, context: &HandlerContext<R>) -> Self {
        let waits: Option<Vec<Duration>> = self.waits.drain(..).collect();
        self.after = waits.and_then(|waits| waits.into_iter().min());
        let children = self.state.state.values().map(HandlerState::completion);
        let completion = children.reduce(combine).unwrap_or(Completion::Unfinished);
        self.state.complete(completion, context.clock().now());
        self
    }
}
