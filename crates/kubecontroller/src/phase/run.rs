//! One run of a tree of handlers.
//!
//! The state that comes out mirrors the tree: a child for each child, also for those never begun. What the status still knows
//! of children that the tree no longer has is dropped.

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
    context::Context,
    error::{PhaseError, Severity},
    handler::{BoxedFuture, Handler, Kind, List, Work},
    state::{ObjectState, State, stamp},
    step::{Change, Step},
};

/// Whether a error that does not say so itself is fatal.
pub(super) type Judge = Arc<dyn Fn(&PhaseError) -> bool + Send + Sync>;

/// What came of a run.
pub(super) struct Ran<R> {
    pub(super) state: State,
    pub(super) changes: Vec<Change<R>>,
    /// Where the handler itself wants to go; never a child's wish.
    pub(super) next: Option<String>,
    /// How long to wait, if the handler asked for that; of a composite, the shortest wait if all that are not done asked.
    pub(super) after: Option<Duration>,
    /// What children that are not done asked for.
    waits: Vec<Option<Duration>>,
}

/// Runs a handler, with what `context` says was known of it.
pub(super) fn run<'a, R: Clone + Send + Sync + 'static>(
    judge: &'a Judge,
    handler: &'a Handler<R>,
    context: Context<R>,
) -> std::pin::Pin<Box<dyn Future<Output = Ran<R>> + Send + 'a>> {
    Box::pin(async move {
        let now = context.clock().now();
        let mut state = State {
            start_time: context.last().start_time.clone(),
            ..State::default()
        };
        state.begin(now);
        match &handler.kind {
            Kind::Function(run) => {
                let answer = guarded(handler, &context, run(context.clone())).await;
                function(judge, handler, &context, state, answer)
            }
            Kind::Objects { list, work, batch } => {
                objects(judge, handler, &context, state, list, work, *batch).await
            }
            Kind::Serial(children) | Kind::Parallel(children) if children.is_empty() => {
                state.end_badly(now, format!("Composite handler {} has no children", handler.name));
                Ran::of(state)
            }
            Kind::Serial(children) => serial(judge, children, &context, state).await,
            Kind::Parallel(children) => parallel(judge, children, &context, state).await,
        }
    })
}

fn function<R: Clone>(
    judge: &Judge,
    handler: &Handler<R>,
    context: &Context<R>,
    mut state: State,
    answer: Result<Step<R>, PhaseError>,
) -> Ran<R> {
    let now = context.clock().now();
    match answer.and_then(|step| tried(handler, context, step)) {
        Ok(step) => {
            state.warning = step.warning;
            if step.done {
                state.end(now);
            }
            let after = step.after.filter(|_| !step.done);
            let (changes, next) = (step.changes, step.next);
            Ran {
                changes,
                next,
                after,
                ..Ran::of(state)
            }
        }
        Err(error) => {
            fail(judge, &mut state, &error, context);
            Ran::of(state)
        }
    }
}

async fn objects<R: Clone>(
    judge: &Judge,
    handler: &Handler<R>,
    context: &Context<R>,
    mut state: State,
    list: &List<R>,
    work: &Work<R>,
    size: usize,
) -> Ran<R> {
    state.objects.clone_from(&context.last().objects);
    if state.objects.is_empty() {
        let listed = guarded(handler, context, list(context.clone())).await;
        match listed.and_then(distinct) {
            Ok(objects) => state.objects = objects,
            Err(error) => {
                fail(judge, &mut state, &error, context);
                return Ran::of(state);
            }
        }
    }
    let batch = batch(&mut state.objects, size, context);
    let mut ran = Ran::of(state);
    if !batch.is_empty() {
        let answer = guarded(handler, context, work(context.clone(), batch)).await;
        match answer.and_then(|step| tried(handler, context, step)) {
            Ok(step) => {
                merge(&mut ran.state.objects, step.objects, context);
                (ran.changes, ran.after, ran.state.warning) = (step.changes, step.after, step.warning);
            }
            Err(error) => {
                fail(judge, &mut ran.state, &error, context);
                return ran;
            }
        }
    }
    roll_up(&mut ran.state, context);
    ran
}

async fn serial<R: Clone + Send + Sync + 'static>(
    judge: &Judge,
    children: &[Handler<R>],
    context: &Context<R>,
    state: State,
) -> Ran<R> {
    let mut all = Ran::of(state);
    let mut seen = context.shared_resource();
    let mut stopped = false;
    for child in children {
        let last = known(child, context.last());
        let ran = if stopped || ended(&last) {
            Ran::of(last)
        } else {
            run(
                judge,
                child,
                context.at(Arc::clone(&seen), &last, context.cancel().clone()),
            )
            .await
        };
        for change in &ran.changes {
            change(Arc::make_mut(&mut seen));
        }
        stopped |= !ran.state.done || ran.state.failed;
        all.take(child, ran);
    }
    all.finish(context)
}

async fn parallel<R: Clone + Send + Sync + 'static>(
    judge: &Judge,
    children: &[Handler<R>],
    context: &Context<R>,
    state: State,
) -> Ran<R> {
    let mut all = Ran::of(state);
    let cancel = context.cancel().child_token();
    let runs = children.iter().map(|child| async {
        let last = known(child, context.last());
        if ended(&last) {
            return Ran::of(last);
        }
        let ran = run(
            judge,
            child,
            context.at(context.shared_resource(), &last, cancel.clone()),
        )
        .await;
        if ran.state.failed {
            cancel.cancel();
        }
        ran
    });
    for (child, ran) in children.iter().zip(join_all(runs).await) {
        all.take(child, ran);
    }
    all.finish(context)
}

/// Waits for what a handler does. A panic is a fatal error; one that was told to stop has its grace and no more.
async fn guarded<R, T>(
    handler: &Handler<R>,
    context: &Context<R>,
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

/// The step, if its changes can be made: a panic in one of them is a panic of the handler.
fn tried<R: Clone>(handler: &Handler<R>, context: &Context<R>, step: Step<R>) -> Result<Step<R>, PhaseError> {
    if !step.changes.is_empty() {
        let mut copy = context.resource().clone();
        make(&step.changes, &mut copy).map_err(|panic| panicked(handler, &*panic))?;
    }
    Ok(step)
}

/// Makes changes, unless one of them panics.
pub(super) fn make<R>(changes: &[Change<R>], object: &mut R) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| {
        for change in changes {
            change(object);
        }
    }))
}

fn panicked<R>(handler: &Handler<R>, panic: &(dyn Any + Send)) -> PhaseError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    PhaseError::fatal(format!("handler {} panicked: {text}", handler.name))
}

fn fail<R>(judge: &Judge, state: &mut State, error: &PhaseError, context: &Context<R>) {
    let fatal = match error.severity() {
        Severity::Cancelled => return,
        Severity::Fatal => true,
        Severity::Retry => false,
        Severity::Undecided => judge(error),
    };
    if fatal {
        state.end_badly(context.clock().now(), error.to_string());
    } else {
        state.failed = true;
        state.error = Some(error.to_string());
    }
}

/// What the state of the parent knows of a child.
fn known<R>(child: &Handler<R>, parent: &State) -> State {
    parent
        .state
        .get(&child.name)
        .cloned()
        .unwrap_or_else(|| child.blank())
}

/// Whether a child is not to be run again. One that is said to be done although its failure was not fatal is: nothing here
/// writes that, and taken at its word it would end neither well nor badly.
fn ended(child: &State) -> bool {
    child.done && (child.fatal || !child.failed)
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

/// Those to be handed over next, marked as begun: the group of the first that is not done, or as many as have none.
fn batch<R>(objects: &mut [ObjectState], size: usize, context: &Context<R>) -> Vec<ObjectState> {
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
    let open = objects
        .iter_mut()
        .filter(|object| !object.done && object.group == group);
    let begun = open.take(limit).map(|object| {
        object.start_time.get_or_insert_with(|| now.clone());
        object.clone()
    });
    begun.collect()
}

fn merge<R>(objects: &mut [ObjectState], answers: Vec<ObjectState>, context: &Context<R>) {
    for answer in answers {
        let Some(object) = objects
            .iter_mut()
            .find(|object| object.id == answer.id && !object.done)
        else {
            warn!(
                id = answer.id,
                phase = context.phase(),
                "a handler answered for an object it was not given"
            );
            continue;
        };
        object.handle_id = answer.handle_id;
        object.warning = answer.warning;
        object.error = answer.error;
        object.done = answer.done;
        object.end_time = answer.done.then(|| stamp(context.clock().now()));
    }
}

/// Ends the handler if no object is left.
fn roll_up<R>(state: &mut State, context: &Context<R>) {
    if state.objects.iter().any(|object| !object.done) {
        return;
    }
    let now = context.clock().now();
    let told = |message: fn(&ObjectState) -> Option<&str>| {
        let told = state
            .objects
            .iter()
            .filter_map(|object| Some(format!("{}: {}", object.id, message(object)?)));
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    };
    if let Some(errors) = told(|object| object.error.as_deref()) {
        state.end_badly(now, errors);
        return;
    }
    let warnings = told(|object| object.warning.as_deref());
    state.warning = warnings.or_else(|| state.warning.take());
    state.end(now);
}

// --- Ran ---

impl<R> Ran<R> {
    fn of(state: State) -> Self {
        Ran {
            state,
            changes: Vec::new(),
            next: None,
            after: None,
            waits: Vec::new(),
        }
    }

    fn take(&mut self, child: &Handler<R>, ran: Ran<R>) {
        if let Some(next) = ran.next {
            warn!(
                child = child.name,
                next, "only the handler of a phase chooses the next one; a child's wish is not heard"
            );
        }
        self.changes.extend(ran.changes);
        if ran.state.start_time.is_some() && !ran.state.done {
            self.waits.push(ran.after);
        }
        self.state.state.insert(child.name.clone(), ran.state);
    }

    /// A composite is what its children are.
    fn finish(mut self, context: &Context<R>) -> Self {
        let waits: Option<Vec<Duration>> = self.waits.drain(..).collect();
        self.after = waits.and_then(|waits| waits.into_iter().min());
        let children = || self.state.state.values();
        self.state.failed = children().any(|child| child.failed);
        self.state.fatal = children().any(|child| child.fatal);
        if self.state.fatal || children().all(|child| child.done && !child.failed) {
            self.state.end(context.clock().now());
        }
        self
    }
}
