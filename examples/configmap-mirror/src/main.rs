//! Mirrors config maps to the namespaces in their annotation.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, ResourceExt};
use kubecontroller::controller::{Error, Outcome, Reconciler, Request};
use kubecontroller::{App, Key, informer::InformerScope, manager, store::Index, store::Store};

const TO: &str = "mirror.example.com/to"; // on a source: comma-separated namespaces
const FROM: &str = "mirror.example.com/from"; // on a copy: namespace and name of its source

fn main() -> std::process::ExitCode {
    App::new("configmap-mirror").register(setup).main()
}

pub(crate) fn setup(manager: &mut manager::Manager) -> Result<(), manager::BoxError> {
    let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
    let by_source = maps.store().index(|map| vec![source(map).to_string()]);
    let mirror = Mirror(manager.client().clone(), maps.store().clone(), by_source);
    let controller = manager.controller("configmap-mirror");
    let controller = controller.watches(&maps, |change| vec![source(change.object())]);
    manager.add(controller.reconciler(mirror));
    Ok(())
}

struct Mirror(kube::Client, Store<ConfigMap>, Index<ConfigMap>);

impl Reconciler for Mirror {
    async fn reconcile(&self, Request { key, .. }: Request) -> Result<Outcome, Error> {
        let Mirror(client, store, by_source) = self;
        let api = |namespace: &str| Api::<ConfigMap>::namespaced(client.clone(), namespace);
        let map = store.get(&key).unwrap_or_default();
        let to = map.annotations().get(TO).map_or("", String::as_str).split(',');
        let targets: Vec<&str> = to.filter(|to| !to.is_empty() && *to != key.namespace()).collect();
        for copy in by_source.keys(key.as_str()) {
            if copy != key && !targets.contains(&copy.namespace()) {
                let api = api(copy.namespace());
                api.delete(copy.name(), &DeleteParams::default()).await?;
            }
        }
        let mut copy = ConfigMap::default();
        copy.data.clone_from(&map.data);
        copy.annotations_mut().insert(FROM.to_owned(), key.to_string());
        let params = PatchParams::apply("configmap-mirror").force();
        for namespace in targets {
            let existing = store.get(&Key::new(namespace, key.name()));
            if existing.is_some_and(|existing| source(&existing) != key) {
                return Err(Error::permanent("the target exists and is not a copy"));
            }
            let api = api(namespace);
            api.patch(key.name(), &params, &Patch::Apply(&copy)).await?;
        }
        Ok(Outcome::Done)
    }
}

/// The source of a copy; any other config map is its own source.
fn source(map: &ConfigMap) -> Key {
    let from = map.annotations().get(FROM).and_then(|key| key.parse().ok());
    from.unwrap_or_else(|| kubecontroller::object::Object::key(map))
}
