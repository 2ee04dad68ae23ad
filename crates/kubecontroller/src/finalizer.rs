//! Finalizers: cleanup before an object is removed.
//!
//! Guarantees: [`Apply`](FinalizerEvent::Apply) runs only after the finalizer is written, so whatever it creates is cleaned up. The
//! finalizer is removed only after the cleanup has succeeded. A cleanup that fails is retried, so it must be idempotent.

use std::{fmt::Debug, future::Future, sync::Arc};

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    controller::{Error, Outcome},
    object::Object,
    writer::is_not_found,
};

/// What a reconciler has to do for an object that has the finalizer.
#[derive(Debug)]
pub enum FinalizerEvent<T> {
    /// Bring the object to its desired state.
    Apply(Arc<T>),
    /// The object is terminating: remove everything that was created for it.
    Cleanup(Arc<T>),
}

/// Reconciles an object with a finalizer.
///
/// If the object does not have the finalizer, it is added; the resulting event causes the next reconcile. When
/// [`FinalizerEvent::Cleanup`] returns [`Outcome::Done`], the finalizer is removed; any other outcome keeps it.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubecontroller::{controller::{Error, Outcome}, finalizer::{self, FinalizerEvent}};
///
/// # async fn show(api: &kube::Api<ConfigMap>, map: Arc<ConfigMap>) -> Result<Outcome, Error> {
/// finalizer::reconcile(api, "example.com/cleanup", map, |event| async move {
///     match event {
///         FinalizerEvent::Apply(map) => println!("create what {:?} needs", map.metadata.name),
///         FinalizerEvent::Cleanup(map) => println!("delete what was created for {:?}", map.metadata.name),
///     }
///     Ok(Outcome::Done)
/// })
/// .await
/// # }
/// ```
pub async fn reconcile<K, T, F, Fut>(
    api: &Api<K>,
    finalizer: &str,
    object: Arc<T>,
    handle: F,
) -> Result<Outcome, Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
    F: FnOnce(FinalizerEvent<T>) -> Fut,
    Fut: Future<Output = Result<Outcome, Error>>,
{
    match (has_finalizer(&*object, finalizer), object.is_terminating()) {
        (true, false) => handle(FinalizerEvent::Apply(object)).await,
        (false, false) => {
            add_finalizer(api, &*object, finalizer).await?;
            Ok(Outcome::Done)
        }
        (true, true) => {
            let outcome = handle(FinalizerEvent::Cleanup(Arc::clone(&object))).await?;
            if outcome == Outcome::Done {
                remove_finalizer(api, &*object, finalizer).await?;
            }
            Ok(outcome)
        }
        (false, true) => Ok(Outcome::Done),
    }
}

/// Whether an object has a finalizer.
pub fn has_finalizer<T: Object>(object: &T, finalizer: &str) -> bool {
    object.finalizers().any(|known| known == finalizer)
}

/// Adds a finalizer if the object does not have it. Fails if the finalizers of the object have changed since it was read; the
/// event of that change causes the next reconcile.
pub async fn add_finalizer<K, T>(api: &Api<K>, object: &T, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    if has_finalizer(object, finalizer) {
        return Ok(());
    }
    let finalizers: Vec<_> = object.finalizers().collect();
    let (test, add) = if finalizers.is_empty() {
        // A missing list compares equal to null. Without the test, a list that was added meanwhile would be overwritten.
        let test = json!({"op": "test", "path": "/metadata/finalizers", "value": null});
        let add = json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]});
        (test, add)
    } else {
        let test = json!({"op": "test", "path": "/metadata/finalizers", "value": finalizers});
        let add = json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer});
        (test, add)
    };
    patch(api, object, json!([test_uid(object), test, add])).await
}

/// Removes a finalizer. Succeeds if the object no longer exists.
pub async fn remove_finalizer<K, T>(api: &Api<K>, object: &T, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    let Some(position) = object.finalizers().position(|known| known == finalizer) else {
        return Ok(());
    };
    let path = format!("/metadata/finalizers/{position}");
    // Positions shift when other finalizers are removed. The test keeps this from removing another one.
    let test = json!({"op": "test", "path": path, "value": finalizer});
    let remove = json!({"op": "remove", "path": path});
    let removed = patch(api, object, json!([test_uid(object), test, remove])).await;
    match removed {
        Err(error) if is_not_found(&error) => Ok(()),
        removed => removed,
    }
}

/// Fails the patch if the object was deleted and recreated under the same name.
fn test_uid<T: Object>(object: &T) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": object.uid()})
}

async fn patch<K, T>(api: &Api<K>, object: &T, operations: Value) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    let operations = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
    let patch = Patch::Json::<()>(operations);
    api.patch(object.name(), &PatchParams::default(), &patch).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        },
        time::Duration,
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::DeleteParams};
    use serde_json::json;

    use super::{FinalizerEvent, add_finalizer, has_finalizer, reconcile, remove_finalizer};
    use crate::{
        controller::{Error, Outcome},
        testing::FakeApi,
    };

    const OURS: &str = "example.com/cleanup";

    fn api_with_object(finalizers: &[&str]) -> (FakeApi, Api<ConfigMap>) {
        let api = FakeApi::new();
        let map = json!({"metadata": {"name": "web", "namespace": "shop", "finalizers": finalizers}});
        let mut map: ConfigMap = serde_json::from_value(map).unwrap();
        if finalizers.is_empty() {
            map.metadata.finalizers = None;
        }
        api.put(&map);
        let maps = Api::namespaced(api.client(), "shop");
        (api, maps)
    }

    fn finalizers(api: &FakeApi) -> Vec<String> {
        let map: Option<ConfigMap> = api.get("shop", "web");
        map.and_then(|map| map.metadata.finalizers).unwrap_or_default()
    }

    #[tokio::test]
    async fn applies_after_adding_the_finalizer_and_removes_it_after_cleanup() {
        let (api, maps) = api_with_object(&[]);
        let [applied, cleaned] = [0, 1].map(|_| AtomicUsize::new(0));
        let is_failing = AtomicBool::new(true);
        let is_slow = AtomicBool::new(true);
        let run = async || {
            let map = Arc::new(maps.get("web").await?);
            let handle = async |event| {
                match event {
                    FinalizerEvent::Apply(_) => applied.fetch_add(1, SeqCst),
                    FinalizerEvent::Cleanup(_) if is_failing.load(SeqCst) => {
                        return Err(Error::transient("not yet"));
                    }
                    FinalizerEvent::Cleanup(_) if is_slow.load(SeqCst) => {
                        return Ok(Outcome::requeue_after(Duration::from_secs(1)));
                    }
                    FinalizerEvent::Cleanup(_) => cleaned.fetch_add(1, SeqCst),
                };
                Ok::<_, Error>(Outcome::Done)
            };
            reconcile(&maps, OURS, map, handle).await
        };
        run().await.unwrap();
        assert_eq!(
            (finalizers(&api), applied.load(SeqCst)),
            (vec![OURS.to_owned()], 0)
        );
        run().await.unwrap();
        assert_eq!(applied.load(SeqCst), 1);

        maps.delete("web", &DeleteParams::default()).await.unwrap();
        assert!(run().await.is_err());
        assert_eq!(finalizers(&api), [OURS]);
        is_failing.store(false, SeqCst);
        assert_eq!(
            run().await.unwrap(),
            Outcome::requeue_after(Duration::from_secs(1))
        );
        assert_eq!(
            (finalizers(&api), cleaned.load(SeqCst)),
            (vec![OURS.to_owned()], 0)
        );
        is_slow.store(false, SeqCst);
        run().await.unwrap();
        assert_eq!((api.list::<ConfigMap>().len(), cleaned.load(SeqCst)), (0, 1));
        assert_eq!(applied.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn keeps_other_finalizers() {
        let (api, maps) = api_with_object(&["other/a", "other/b"]);
        let map = maps.get("web").await.unwrap();
        add_finalizer(&maps, &map, OURS).await.unwrap();
        assert_eq!(finalizers(&api), ["other/a", "other/b", OURS]);
        // `map` is outdated by now. Neither another finalizer nor ours is lost.
        assert!(add_finalizer(&maps, &map, "example.com/second").await.is_err());
        let map = maps.get("web").await.unwrap();
        api.edit::<ConfigMap>("shop", "web", |map| {
            map.metadata.finalizers.as_mut().unwrap().remove(0).clear();
        });
        assert!(remove_finalizer(&maps, &map, OURS).await.is_err());
        assert_eq!(finalizers(&api), ["other/b", OURS]);
        let map = maps.get("web").await.unwrap();
        assert!(has_finalizer(&map, OURS));
        remove_finalizer(&maps, &map, OURS).await.unwrap();
        assert_eq!(finalizers(&api), ["other/b"]);
    }

    #[tokio::test]
    async fn removing_from_a_deleted_object_succeeds_and_a_recreated_one_is_untouched() {
        let (api, maps) = api_with_object(&[OURS]);
        let map = maps.get("web").await.unwrap();
        api.remove::<ConfigMap>("shop", "web");
        remove_finalizer(&maps, &map, OURS).await.unwrap();
        api.put(&ConfigMap {
            metadata: kube::core::ObjectMeta {
                uid: None,
                ..map.metadata.clone()
            },
            ..ConfigMap::default()
        });
        assert!(remove_finalizer(&maps, &map, OURS).await.is_err());
        assert_eq!(finalizers(&api), [OURS]);
    }
}
