//! Creates a config map for every widget.

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

use crate::api::Widget;

struct WidgetSetup;

impl Setup for WidgetSetup {
    fn name(&self) -> &'static str {
        "widget"
    }

    fn resource(&self) -> &'static str {
        "widgets"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let widgets = manager.informers().typed::<Widget>(InformerScope::default());
        let maps = manager
            .informers()
            .metadata::<ConfigMap>(InformerScope::default());
        let client = manager.client().clone();
        let controller = manager
            .controller("widget")
            .for_(&widgets)
            .owns(&maps, "Widget")
            .reconciler(reconcile_object_fn(widgets.store(), move |seen| {
                reconcile(client.clone(), seen)
            }));
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "widget",
    metadata: ResourceMetadata::new("widgets", "Widget", "example.com/v1").description("creates config maps for widgets"),
    make: || WidgetSetup,
    crds: || vec![Widget::crd()],
}

/// Applies the config map and updates the status.
async fn reconcile(client: Client, seen: CacheLookup<Widget>) -> Result<Outcome, Error> {
    let CacheLookup::Found(widget) = seen else {
        // The garbage collector deletes the config map.
        return Ok(Outcome::Done);
    };
    let namespace = widget.namespace().unwrap_or_default();
    let manager = PatchParams::apply("widget-operator").force();
    let map = config_map(&widget)?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&map.name_any(), &manager, &Patch::Apply(&map)).await?;

    let generation = widget.metadata.generation.unwrap_or_default();
    if widget
        .status
        .as_ref()
        .is_none_or(|status| status.observed_generation != generation)
    {
        let widgets: Api<Widget> = Api::namespaced(client, &namespace);
        let status = Patch::Merge(json!({"status": {"observedGeneration": generation}}));
        widgets
            .patch_status(&widget.name_any(), &PatchParams::default(), &status)
            .await?;
    }
    Ok(Outcome::Done)
}

fn config_map(widget: &Arc<Widget>) -> Result<ConfigMap, Error> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("{}-widget", widget.name_any()));
    map.metadata.namespace = widget.namespace();
    map.data = Some([("message".to_owned(), widget.spec.message.clone())].into());
    set_controller_reference(&**widget, &mut map)?;
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

    use crate::api::{Widget, WidgetSpec};

    #[tokio::test(start_paused = true)]
    async fn config_map_is_created_and_recreated() {
        let api = FakeApi::new();
        let spec = WidgetSpec {
            message: "hello".to_owned(),
        };
        let mut widget = Widget::new("one", spec);
        widget.metadata.namespace = Some("default".to_owned());
        api.put(&widget);
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(
            App::new("widget-operator")
                .linked()
                .run(Config::default(), api.client(), stop.clone()),
        );
        let message = || {
            api.get::<ConfigMap>("default", "one-widget")
                .and_then(|map| map.data?.remove("message"))
        };
        eventually(|| async { message().filter(|message| message == "hello") }).await;
        api.remove::<ConfigMap>("default", "one-widget");
        eventually(|| async { message() }).await;
        eventually(|| async {
            api.get::<Widget>("default", "one")?
                .status
                .filter(|status| status.observed_generation == 1)
        })
        .await;
        stop.stop(Duration::from_secs(5));
        tasks.join_next().await.unwrap().unwrap().unwrap();
    }
}
