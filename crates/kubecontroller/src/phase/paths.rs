//! Lists the objects of a resource by paths.

use serde::Serialize;
use serde_json::Value;

use super::{context::HandlerContext, error::PhaseError, handler::BoxedFuture, state::ObjectState};

/// Paths that select objects in a resource, for [`objects`](super::objects). A path is a list of field names separated by
/// dots; `[*]` selects all items of a list.
///
/// `ObjectPaths::new("spec.shards[*].tables[*]", "id").name("title").group("shard")`
#[derive(Clone, Debug)]
pub struct ObjectPaths {
    objects: String,
    id: String,
    name: Option<String>,
    group: Option<String>,
}

/// Returns a function that lists the objects of the resource at the given paths.
pub fn paths<R: Serialize + Send + Sync + 'static>(
    paths: ObjectPaths,
) -> impl Fn(HandlerContext<R>) -> BoxedFuture<Result<Vec<ObjectState>, PhaseError>> + Send + Sync + 'static {
    move |context| {
        let found = serde_json::to_value(context.resource()).map_err(PhaseError::from);
        let found = found.and_then(|tree| paths.find(&tree));
        Box::pin(std::future::ready(found))
    }
}

// --- ObjectPaths ---

impl ObjectPaths {
    /// Selects the objects at `objects`; `id` is the path from an object to its id, and is empty for objects that are strings.
    pub fn new(objects: impl Into<String>, id: impl Into<String>) -> Self {
        ObjectPaths {
            objects: objects.into(),
            id: id.into(),
            name: None,
            group: None,
        }
    }

    /// Sets the path from an object to its name.
    #[must_use]
    pub fn name(mut self, path: impl Into<String>) -> Self {
        self.name = Some(path.into());
        self
    }

    /// Sets the path from an object to its group.
    #[must_use]
    pub fn group(mut self, path: impl Into<String>) -> Self {
        self.group = Some(path.into());
        self
    }

    /// Lists the objects of a resource. An object without an id is a fatal error.
    pub fn find(&self, tree: &Value) -> Result<Vec<ObjectState>, PhaseError> {
        let found = follow(tree, &self.objects).into_iter().map(|object| {
            let text = |path: &String| follow(object, path).first().and_then(|value| text(value));
            let id = text(&self.id);
            let id = id.ok_or_else(|| {
                PhaseError::fatal(format!(
                    "no id at {:?} in an object of {:?}",
                    self.id, self.objects
                ))
            })?;
            Ok(ObjectState::new(id)
                .named(self.name.as_ref().and_then(text).unwrap_or_default())
                .grouped(self.group.as_ref().and_then(text).unwrap_or_default()))
        });
        found.collect()
    }
}

fn follow<'v>(tree: &'v Value, path: &str) -> Vec<&'v Value> {
    let steps = path
        .split(['.', '['])
        .map(|step| step.trim_end_matches(']'))
        .filter(|step| !step.is_empty());
    steps.fold(vec![tree], |at, step| {
        let at = at.into_iter();
        match step {
            "*" => at.filter_map(Value::as_array).flatten().collect(),
            step => at.filter_map(|value| child(value, step)).collect(),
        }
    })
}

fn child<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
