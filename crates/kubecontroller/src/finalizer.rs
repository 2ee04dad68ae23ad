//! Cleaning up before an object may go.
//!
//! Promises: nothing is applied before the finalizer is written, so whatever was made is cleaned up; the finalizer is removed
//! when the cleanup has succeeded, and never before. A cleanup that fails is tried again, and must do no harm then.

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
};

/// What is to be done for an object that has the finalizer.
#[derive(Debug)]
pub enum FinalizerEvent<T> {
    /// It is to be what it should be.
    Apply(Arc<T>),
    /// It is going: everything that was made for it is to go first.
    Cleanup(Arc<T>),
}

/// Reconciles an object that needs a cleanup at its end.
///
/// An object without the finalizer gets it, and is reconciled when that was seen. [`FinalizerEvent::Cleanup`] that ends with
/// [`Outcome::Done`] lets the object go; any other outcome keeps it until a later one does.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubecontroller::{controller::{Error, Outcome}, finalizer::{self, FinalizerEvent}};
///
/// # async fn show(api: &kube::Api<ConfigMap>, map: Arc<ConfigMap>) -> Result<Outcome, Error> {
/// finalizer::reconcile(api, "example.com/cleanup", map, |call| async move {
///     match call {
///         FinalizerEvent::Apply(map) => println!("make what {:?} needs", map.metadata.name),
///         FinalizerEvent::Cleanup(map) => println!("remove what was made for {:?}", map.metadata.name),
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
    act: F,
) -> Result<Outcome, Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
    F: FnOnce(FinalizerEvent<T>) -> Fut,
    Fut: Future<Output = Result<Outcome, Error>>,
{
    match (has_finalizer(&*object, finalizer), object.is_terminating()) {
        (true, false) => act(FinalizerEvent::Apply(object)).await,
        (false, false) => {
            add_finalizer(api, &*object, finalizer).await?;
            Ok(Outcome::Done)
        }
        (true, true) => {
            let outcome = act(FinalizerEvent::Cleanup(Arc::clone(&object))).await?;
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

/// Adds a finalizer to an object that has not got it. Refused if the object's finalizers are no longer those that are known:
/// then its next event brings the next try.
pub async fn add_finalizer<K, T>(api: &Api<K>, object: &T, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    if has_finalizer(object, finalizer) {
        return Ok(());
    }
    let known: Vec<_> = object.finalizers().collect();
    let (test, add) = if known.is_empty() {
        // A list that is not there is tested as null. Without the test one that somebody else just made would be lost.
        let test = json!({"op": "test", "path": "/metadata/finalizers", "value": null});
        let add = json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]});
        (test, add)
    } else {
        let test = json!({"op": "test", "path": "/metadata/finalizers", "value": known});
        let add = json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer});
        (test, add)
    };
    patch(api, object, json!([same_object(object), test, add])).await
}

/// Removes a finalizer. An object that is gone has none.
pub async fn remove_finalizer<K, T>(api: &Api<K>, object: &T, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    let Some(position) = object.finalizers().position(|known| known == finalizer) else {
        return Ok(());
    };
    let path = format!("/metadata/finalizers/{position}");
    // Positions move when others remove theirs: the test keeps us from removing somebody else's.
    let test = json!({"op": "test", "path": path, "value": finalizer});
    let remove = json!({"op": "remove", "path": path});
    let removed = patch(api, object, json!([same_object(object), test, remove])).await;
    match removed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        removed => removed,
    }
}

/// Not another object that has the name by now.
fn same_object<T: Object>(object: &T) -> Value {
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

    fn world(finalizers: &[&str]) -> (FakeApi, Api<ConfigMap>) {
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
    async fn nothing_is_applied_before_the_finalizer_and_nothing_goes_before_the_cleanup() {
        let (api, maps) = world(&[]);
        let [applied, cleaned] = [0, 1].map(|_| AtomicUsize::new(0));
        let (is_broken, is_slow) = (AtomicBool::new(true), AtomicBool::new(true));
        let run = async || {
            let map = Arc::new(maps.get("web").await?);
            let act = async |call| {
                match call {
                    FinalizerEvent::Apply(_) => applied.fetch_add(1, SeqCst),
                    FinalizerEvent::Cleanup(_) if is_broken.load(SeqCst) => {
                        return Err(Error::transient("not yet"));
                    }
                    FinalizerEvent::Cleanup(_) if is_slow.load(SeqCst) => {
                        return Ok(Outcome::requeue_after(Duration::from_secs(1)));
                    }
                    FinalizerEvent::Cleanup(_) => cleaned.fetch_add(1, SeqCst),
                };
                Ok::<_, Error>(Outcome::Done)
            };
            reconcile(&maps, OURS, map, act).await
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
        is_broken.store(false, SeqCst);
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
    async fn finalizers_of_others_stay() {
        let (api, maps) = world(&["other/a", "other/b"]);
        let map = maps.get("web").await.unwrap();
        add_finalizer(&maps, &map, OURS).await.unwrap();
        assert_eq!(finalizers(&api), ["other/a", "other/b", OURS]);
        // What is known is old by now: neither somebody else's nor our own is lost.
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
    async fn an_object_that_is_gone_has_no_finalizer_and_its_successor_is_left_alone() {
        let (api, maps) = world(&[OURS]);
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
