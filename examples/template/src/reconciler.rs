//! Gives every thing its config map.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResourceExt, ResourceExt,
    api::{Patch, PatchParams},
};
use kubecontroller::{
    controller::{CacheLookup, Error, Outcome, reconcile_object_fn},
    informer::InformerScope,
    manager::{BoxError, Manager, ResourceMetadata, Setup},
    owner::set_controller_reference,
};
use serde_json::json;

use crate::api::Thing;

struct ThingSetup;

impl Setup for ThingSetup {
    fn name(&self) -> &'static str {
        "thing"
    }

    fn resource(&self) -> &'static str {
        "things"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let things = manager.informers().typed::<Thing>(InformerScope::default());
        let maps = manager
            .informers()
            .metadata::<ConfigMap>(InformerScope::default());
        let client = manager.client().clone();
        let controller = manager
            .controller("thing")
            .for_(&things)
            .owns(&maps, "Thing")
            .reconciler(reconcile_object_fn(things.store(), move |seen| {
                reconcile(client.clone(), seen)
            }));
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "thing",
    metadata: ResourceMetadata::new("things", "Thing", "example.com/v1").description("looks after things"),
    make: || ThingSetup,
    crds: || vec![Thing::crd()],
}

/// Compares what is with what should be, and acts on the difference.
async fn reconcile(client: Client, seen: CacheLookup<Thing>) -> Result<Outcome, Error> {
    let CacheLookup::Found(thing) = seen else {
        // What it owned goes with it.
        return Ok(Outcome::Done);
    };
    let namespace = thing.namespace().unwrap_or_default();
    let manager = PatchParams::apply("thing-operator").force();
    let map = config_map(&thing)?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&map.name_any(), &manager, &Patch::Apply(&map)).await?;

    let generation = thing.metadata.generation.unwrap_or_default();
    if thing
        .status
        .as_ref()
        .is_none_or(|status| status.observed_generation != generation)
    {
        let things: Api<Thing> = Api::namespaced(client, &namespace);
        let status = Patch::Merge(json!({"status": {"observedGeneration": generation}}));
        things
            .patch_status(&thing.name_any(), &PatchParams::default(), &status)
            .await?;
    }
    Ok(Outcome::Done)
}

fn config_map(thing: &Arc<Thing>) -> Result<ConfigMap, Error> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("{}-thing", thing.name_any()));
    map.metadata.namespace = thing.namespace();
    map.data = Some([("message".to_owned(), thing.spec.message.clone())].into());
    set_controller_reference(&**thing, &mut map)?;
    Ok(map)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kubecontroller::{
        App,
        manager::{Config, Stop},
        testing::{FakeApi, eventually},
    };
    use tokio::task::JoinSet;

    use crate::api::{Thing, ThingSpec};

    #[tokio::test(start_paused = true)]
    async fn a_thing_has_its_config_map_whatever_happens_to_it() {
        let api = FakeApi::new();
        let spec = ThingSpec {
            message: "hello".to_owned(),
        };
        let mut thing = Thing::new("one", spec);
        thing.metadata.namespace = Some("default".to_owned());
        api.put(&thing);
        let (stop, mut tasks) = (Stop::new(), JoinSet::new());
        tasks.spawn(
            App::new("thing-operator")
                .linked()
                .run(Config::default(), api.client(), stop.clone()),
        );
        let message = || {
            api.get::<ConfigMap>("default", "one-thing")
                .and_then(|map| map.data?.remove("message"))
        };
        eventually(|| async { message().filter(|message| message == "hello") }).await;
        api.remove::<ConfigMap>("default", "one-thing");
        eventually(|| async { message() }).await;
        eventually(|| async {
            api.get::<Thing>("default", "one")?
                .status
                .filter(|status| status.observed_generation == 1)
        })
        .await;
        stop.stop(Duration::from_secs(5));
        tasks.join_next().await.unwrap().unwrap().unwrap();
    }
}
