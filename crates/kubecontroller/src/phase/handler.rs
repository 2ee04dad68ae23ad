//! Handlers: what is done in a phase.
//!
//! A handler is a function, or is made of other handlers: one after the other, or all at once; or it works through a list of
//! objects. They nest.

use std::{any::type_name, fmt, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    context::Context,
    error::PhaseError,
    state::{ObjectState, State},
    step::StepResult,
    view::Progress,
};

/// What is done in a phase, or a part of it.
pub struct Handler<R> {
    pub(super) name: String,
    pub(super) desc: String,
    pub(super) view: View,
    pub(super) grace: Duration,
    pub(super) kind: Kind<R>,
    pub(super) progress: Option<ProgressFn<R>>,
    pub(super) details: Option<DetailsFn<R>>,
}

/// How users look at a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Not at all.
    #[default]
    None,
    /// As a tree of checks.
    Checklist,
    /// As a list of objects.
    ObjectDetail,
    /// As a bar.
    Progress,
}

pub(super) enum Kind<R> {
    Function(Run<R>),
    Serial(Vec<Handler<R>>),
    Parallel(Vec<Handler<R>>),
    Objects {
        list: List<R>,
        work: Work<R>,
        batch: usize,
    },
}

pub(super) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(super) type Run<R> = Arc<dyn Fn(Context<R>) -> BoxedFuture<StepResult<R>> + Send + Sync>;
pub(super) type List<R> =
    Arc<dyn Fn(Context<R>) -> BoxedFuture<Result<Vec<ObjectState>, PhaseError>> + Send + Sync>;
pub(super) type Work<R> =
    Arc<dyn Fn(Context<R>, Vec<ObjectState>) -> BoxedFuture<StepResult<R>> + Send + Sync>;
pub(super) type ProgressFn<R> = Arc<dyn Fn(&R, &State) -> Progress + Send + Sync>;
pub(super) type DetailsFn<R> = Arc<dyn Fn(&R, &ObjectState) -> Value + Send + Sync>;

/// A handler that is a function. It is named as the function is; a closure has no name of its own.
pub fn function<R, F, Fut>(run: F) -> Handler<R>
where
    R: Send + Sync + 'static,
    F: Fn(Context<R>) -> Fut + Send + Sync + 'static,
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
        // Called inside of the future: what panics before the first wait is caught with the rest.
        Box::pin(async move { run(context).await })
    };
    Handler::new(Kind::Function(Arc::new(run))).named(name)
}

/// Children, one after the other. One that is done is not run again; the first that is not done, or failed, ends the run, and
/// those after it are not begun. Each sees the changes of those before it.
pub fn serial<R>(children: impl IntoIterator<Item = Handler<R>>) -> Handler<R> {
    Handler::new(Kind::Serial(children.into_iter().collect()))
}

/// Children, all at once but those that are done. The first that fails cancels the others; all are waited for.
pub fn parallel<R>(children: impl IntoIterator<Item = Handler<R>>) -> Handler<R> {
    Handler::new(Kind::Parallel(children.into_iter().collect()))
}

/// Works through objects. `list` is asked once; [`paths`](super::paths) makes one from paths into the object. `work` is given
/// a batch of those that are not done: all of one group, or, of those without one, as many as [`Handler::batch`] says. When
/// all are done so is the handler; it has failed if one of them has.
pub fn objects<R, L, LFut, W, WFut>(list: L, work: W) -> Handler<R>
where
    R: Send + Sync + 'static,
    L: Fn(Context<R>) -> LFut + Send + Sync + 'static,
    LFut: Future<Output = Result<Vec<ObjectState>, PhaseError>> + Send + 'static,
    W: Fn(Context<R>, Vec<ObjectState>) -> WFut + Send + Sync + 'static,
    WFut: Future<Output = StepResult<R>> + Send + 'static,
{
    let (list, work) = (Arc::new(list), Arc::new(work));
    let list = move |context| -> BoxedFuture<Result<Vec<ObjectState>, PhaseError>> {
        let list = Arc::clone(&list);
        Box::pin(async move { list(context).await })
    };
    let work = move |context, batch| -> BoxedFuture<StepResult<R>> {
        let work = Arc::clone(&work);
        Box::pin(async move { work(context, batch).await })
    };
    Handler::new(Kind::Objects {
        list: Arc::new(list),
        work: Arc::new(work),
        batch: 0,
    })
}

// --- Handler ---

impl<R> Handler<R> {
    fn new(kind: Kind<R>) -> Self {
        let view = match kind {
            Kind::Function(_) => View::None,
            Kind::Serial(_) | Kind::Parallel(_) => View::Checklist,
            Kind::Objects { .. } => View::ObjectDetail,
        };
        Handler {
            name: String::new(),
            desc: String::new(),
            view,
            grace: Duration::ZERO,
            kind,
            progress: None,
            details: None,
        }
    }

    /// With a name. Names are the keys of the state in the status: renaming a handler makes it a new one. The handler of a
    /// phase that has none is named as the phase.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With words for users.
    #[must_use]
    pub fn desc(mut self, desc: impl Into<String>) -> Self {
        self.desc = desc.into();
        self
    }

    /// How users look at it. Default: a checklist if it has children, a list if it has objects, else none.
    #[must_use]
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// How long it is waited for after it was [told to stop](Context::cancelled). Default: not at all, the function is
    /// dropped where it waits. Only a function, or the work on objects, has a use for it.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How many objects without a group are handed over at once. Default: 0, all.
    #[must_use]
    pub fn batch(mut self, size: usize) -> Self {
        if let Kind::Objects { batch, .. } = &mut self.kind {
            *batch = size;
        }
        self
    }

    /// How far it is, for [`View::Progress`]. Default: its objects, or children, that are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(&R, &State) -> Progress + Send + Sync + 'static) -> Self {
        self.view = View::Progress;
        self.progress = Some(Arc::new(progress));
        self
    }

    /// What is shown of an object, for [`View::ObjectDetail`]. Default: its name, group, result, times and messages.
    #[must_use]
    pub fn details(mut self, details: impl Fn(&R, &ObjectState) -> Value + Send + Sync + 'static) -> Self {
        self.view = View::ObjectDetail;
        self.details = Some(Arc::new(details));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its children, in the order of declaration.
    pub fn children(&self) -> &[Handler<R>] {
        match &self.kind {
            Kind::Serial(children) | Kind::Parallel(children) => children,
            Kind::Function(_) | Kind::Objects { .. } => &[],
        }
    }

    /// What is known of it before it is begun: nothing, of it and of its children.
    pub(super) fn blank(&self) -> State {
        let children = self.children().iter();
        State {
            state: children
                .map(|child| (child.name.clone(), child.blank()))
                .collect(),
            ..State::default()
        }
    }
}

impl<R> fmt::Debug for Handler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Function(_) => "function",
            Kind::Serial(_) => "serial",
            Kind::Parallel(_) => "parallel",
            Kind::Objects { .. } => "objects",
        };
        write!(f, "{kind} {:?} {:?}", self.name, self.children())
    }
}
