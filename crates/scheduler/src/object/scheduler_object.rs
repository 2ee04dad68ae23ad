//! Reduces decoded objects to what scheduling needs.

use std::sync::Arc;

use kubecontroller::object::{Object, ObjectMeta};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::interner::StringInterner;

/// A kind, reduced to what scheduling needs.
pub trait SchedulerObject: Sized + Send + Sync + 'static {
    /// The decoded object that it is derived from.
    type Source: Object + DeserializeOwned;

    /// Whether scheduling considers the object. Others are as if they did not exist.
    fn is_relevant(_: &Self::Source) -> bool {
        true
    }

    /// Takes what is to be kept.
    fn read(source: &Self::Source, interner: &mut StringInterner) -> Self;
}

/// An object in the store of an informer that only the scheduler reads: first as it was decoded, then only what is kept of it.
#[derive(Debug)]
pub struct StoredObject<T: SchedulerObject> {
    /// What the informer needs to know: which object it is, and in which version.
    metadata: ObjectMeta,
    /// Boxed, so that it takes no memory after it was consumed.
    source: Option<Box<T::Source>>,
    kept: Option<Arc<T>>,
}

impl<T: SchedulerObject> Object for StoredObject<T> {
    type Metadata = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<'de, T: SchedulerObject> Deserialize<'de> for StoredObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let source = T::Source::deserialize(from)?;
        Ok(StoredObject {
            metadata: ObjectMeta {
                name: source.name().into(),
                namespace: source.namespace().into(),
                uid: source.uid().into(),
                resource_version: source.resource_version().into(),
                ..ObjectMeta::default()
            },
            source: Some(Box::new(source)),
            kept: None,
        })
    }
}

impl<T: SchedulerObject> StoredObject<T> {
    /// What is kept.
    pub fn kept(&self) -> Option<&Arc<T>> {
        self.kept.as_ref()
    }
}

/// What informers do with an object before anybody sees it.
pub fn keep<T: SchedulerObject>(
    interner: Arc<Mutex<StringInterner>>,
) -> impl Fn(&mut StoredObject<T>) + Send + Sync + 'static {
    move |object| {
        if let Some(source) = object.source.take() {
            let mut interner = interner.lock();
            object.kept = Some(Arc::new(T::read(&source, &mut interner)));
        }
    }
}

/// Reads one object.
#[cfg(test)]
pub(crate) fn read<T: SchedulerObject>(object: serde_json::Value, interner: &mut StringInterner) -> T {
    let source = serde_json::from_value(object).expect("a test writes objects that can be read");
    T::read(&source, interner)
}
