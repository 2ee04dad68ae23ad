//! Projects API objects to the fields that scheduling needs.

use std::sync::{Arc, Mutex, PoisonError};

use kubecontroller::object::{SlimMeta, SlimObject};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::interner::StringInterner;

/// A kind, reduced to the fields that scheduling needs.
pub trait SchedulerObject: Sized + Send + Sync + 'static {
    /// What is read of it besides its metadata.
    type Fields: DeserializeOwned + Send + Sync + 'static;

    /// Takes what is to be kept.
    fn read(meta: &SlimMeta, fields: &Self::Fields, interner: &mut StringInterner) -> Self;
}

/// An object in the store of an informer: first as it was read, then only what is kept of it.
#[derive(Debug)]
pub struct StoredObject<T: SchedulerObject> {
    /// Boxed, so that it takes no memory after it was consumed.
    fields: Option<Box<T::Fields>>,
    kept: Option<Arc<T>>,
}

impl<'de, T: SchedulerObject> Deserialize<'de> for StoredObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = Some(Box::new(T::Fields::deserialize(from)?));
        Ok(StoredObject { fields, kept: None })
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
) -> impl Fn(&mut SlimObject<StoredObject<T>>) + Send + Sync + 'static {
    move |object| {
        if let Some(fields) = object.fields.fields.take() {
            let mut interner = interner.lock().unwrap_or_else(PoisonError::into_inner);
            object.fields.kept = Some(Arc::new(T::read(&object.metadata, &fields, &mut interner)));
        }
        // The informer itself needs to know which object it is, and in which version.
        let meta = std::mem::take(&mut object.metadata);
        object.metadata = SlimMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            ..SlimMeta::default()
        };
    }
}

/// Reads one object.
#[cfg(test)]
pub(crate) fn read<T: SchedulerObject>(object: serde_json::Value, interner: &mut StringInterner) -> T {
    let slim: SlimObject<T::Fields> =
        serde_json::from_value(object).expect("a test writes objects that can be read");
    T::read(&slim.metadata, &slim.fields, interner)
}
