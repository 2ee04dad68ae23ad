//! Handlers: the work of a phase.
//!
//! A handler is a function, a composite whose children run serially or in parallel, or a function over a list of objects.
//! Handlers nest.

use std::{any::type_name, fmt, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    context::HandlerContext,
    error::PhaseError,
    state::{HandlerState, ObjectState},
    step::StepResult,
    view::HandlerProgress,
};

/// The work of a phase, or a part of it.
pub struct PhaseHandler<R> {
    pub(super) name: String,
    pub(super) desc: String,
    pub(super) view: HandlerView,
    pub(super) grace: Duration,
    pub(super) kind: HandlerKind<R>,
    pub(super) progress: Option<ProgressFn<R>>,
    pub(super) details: Option<DetailsFn<R>>,
}

/// How user interfaces present a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandlerView {
    /// Without details.
    #[default]
    None,
    /// As a tree of checks.
    Checklist,
    /// As a list of objects.
    ObjectDetail,
    /// As a progress bar.
    Progress,
}

pub(super) enum HandlerKind<R> {
    Function(HandlerFn<R>),
    Serial(Vec<PhaseHandler<R>>),
    Parallel(Vec<PhaseHandler<R>>),
    Objects {
        list: ListFn<R>,
        work: ObjectsFn<R>,
        batch: usize,
    },
}

pub(super) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(super) type HandlerFn<R> = Arc<dyn Fn(HandlerContext<R>) -> BoxedFuture<StepResult<R>> + Send + Sync>;
pub(super) type ListFn<R> =
    Arc<dyn Fn(HandlerContext<R>) -> BoxedFuture<Result<Vec<ObjectState>, PhaseError>> + Send + Sync>;
pub(super) type ObjectsFn<R> =
    Arc<dyn Fn(HandlerContext<R>, Vec<ObjectState>) -> BoxedFuture<StepResult<R>> + Send + Sync>;
pub(super) type ProgressFn<R> = Arc<dyn Fn(&R, &HandlerState) -> HandlerProgress + Send + Sync>;
pub(super) type DetailsFn<R> = Arc<dyn Fn(&R, &ObjectState) -> Value + Send + Sync>;

/// A handler that calls a function. It has the name of the function; a closure has no name and needs [`PhaseHandler::named`].
pub fn function<R, F, Fut>(run: F) -> PhaseHandler<R>
where
    R: Send + Sync + 'static,
    F: Fn(HandlerContext<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = StepResult<R>> + Send + 'static,
{
    let path = type_name::<F>().split('<').next().unwrap_or_default();
    let name = path
        .rsplit("::")
        .next()
        .filter(|name| !name.contains('{'))
        .unwrap_or_default();
    let run = Arc::new(run);
    let run = move |context| -> BoxedFuture<StepResult<R>> {
        let run = Arc::clone(&run);
        // `run` is called inside the future, so that a panic before its first await is caught too.
        Box::pin(async move { run(context).await })
    };
    PhaseHandler::new(HandlerKind::Function(Arc::new(run))).named(name)
}

/// A handler that runs its children one after the other. Children that are done do not run again. The first child that is
/// not done, or failed, ends the run; its successors do not start. Each child sees the changes of its predecessors.
pub fn serial<R>(children: impl IntoIterator<Item = PhaseHandler<R>>) -> PhaseHandler<R> {
    PhaseHandler::new(HandlerKind::Serial(children.into_iter().collect()))
}

/// A handler that runs its unfinished children concurrently. The first failure cancels the others; all are awaited.
pub fn parallel<R>(children: impl IntoIterator<Item = PhaseHandler<R>>) -> PhaseHandler<R> {
    PhaseHandler::new(HandlerKind::Parallel(children.into_iter().collect()))
}

/// A handler that processes objects in batches. `list` is called once; [`paths`](super::paths) creates one from paths into the
/// resource. `work` receives a batch of unfinished objects: all of one group, or up to [`PhaseHandler::batch`] of those without
/// a group. The handler is done when all objects are done, and has failed if one of them failed.
pub fn objects<R, L, LFut, W, WFut>(list: L, work: W) -> PhaseHandler<R>
where
    R: Send + Sync + 'static,
    L: Fn(HandlerContext<R>) -> LFut + Send + Sync + 'static,
    LFut: Future<Output = Result<Vec<ObjectState>, PhaseError>> + Send + 'static,
    W: Fn(HandlerContext<R>, Vec<ObjectState>) -> WFut + Send + Sync + 'static,
    WFut: Future<Output = StepResult<R>> + Send + 'static,
{
    let list = Arc::new(list);
    let work = Arc::new(work);
    let list = move |context| -> BoxedFuture<Result<Vec<ObjectState>, PhaseError>> {
        let list = Arc::clone(&list);
        Box::pin(async move { list(context).await })
    };
    let work = move |context, batch| -> BoxedFuture<StepResult<R>> {
        let work = Arc::clone(&work);
        Box::pin(async move { work(context, batch).await })
    };
    PhaseHandler::new(HandlerKind::Objects {
        list: Arc::new(list),
        work: Arc::new(work),
        batch: 0,
    })
}

// --- Handler ---

impl<R> PhaseHandler<R> {
    fn new(kind: HandlerKind<R>) -> Self {
        let view = match kind {
            HandlerKind::Function(_) => HandlerView::None,
            HandlerKind::Serial(_) | HandlerKind::Parallel(_) => HandlerView::Checklist,
            HandlerKind::Objects { .. } => HandlerView::ObjectDetail,
        };
        PhaseHandler {
            name: String::new(),
            desc: String::new(),
            view,
            grace: Duration::ZERO,
            kind,
            progress: None,
            details: None,
        }
    }

    /// Sets the name. Names are keys in the status, so a renamed handler starts with empty state. The handler of a phase takes
    /// the name of the phase if it has none.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the description shown to users.
    #[must_use]
    pub fn desc(mut self, desc: impl Into<String>) -> Self {
        self.desc = desc.into();
        self
    }

    /// Sets how user interfaces present the handler. Default: a checklist for composites, a list for objects, else none.
    #[must_use]
    pub fn view(mut self, view: HandlerView) -> Self {
        self.view = view;
        self
    }

    /// Sets how long the machine waits for the handler after [cancellation](HandlerContext::cancelled). Default: zero, which drops
    /// the handler at its next await point. Has no effect on composites.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the number of objects without a group per batch. Default: 0, which means all.
    #[must_use]
    pub fn batch(mut self, size: usize) -> Self {
        if let HandlerKind::Objects { batch, .. } = &mut self.kind {
            *batch = size;
        }
        self
    }

    /// Sets the function that calculates [`HandlerView::Progress`]. Default: the share of completed objects, or of children.
    #[must_use]
    pub fn progress(
        mut self,
        progress: impl Fn(&R, &HandlerState) -> HandlerProgress + Send + Sync + 'static,
    ) -> Self {
        self.view = HandlerView::Progress;
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Sets the function that renders an object for [`HandlerView::ObjectDetail`]. Default: its name, group, result, times and
    /// messages.
    #[must_use]
    pub fn details(mut self, details: impl Fn(&R, &ObjectState) -> Value + Send + Sync + 'static) -> Self {
        self.view = HandlerView::ObjectDetail;
        self.details = Some(Arc::new(details));
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The children of a composite, in declaration order.
    pub fn children(&self) -> &[PhaseHandler<R>] {
        match &self.kind {
            HandlerKind::Serial(children) | HandlerKind::Parallel(children) => children,
            HandlerKind::Function(_) | HandlerKind::Objects { .. } => &[],
        }
    }

    /// The state before the first run: empty, with an empty entry for each child.
    pub(super) fn blank(&self) -> HandlerState {
        let children = self.children().iter();
        HandlerState::with_children(children.map(|child| (child.name.clone(), child.blank())))
    }
}

impl<R> fmt::Debug for PhaseHandler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            HandlerKind::Function(_) => "function",
            HandlerKind::Serial(_) => "serial",
            HandlerKind::Parallel(_) => "parallel",
            HandlerKind::Objects { .. } => "objects",
        };
        write!(f, "{kind} {:?} {:?}", self.name, self.children())
    }
}
