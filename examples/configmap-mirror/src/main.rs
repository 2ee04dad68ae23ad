//! Keeps copies of config maps in the namespaces that their annotation names.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, ResourceExt};
use kubecontroller::controller::{Error, Outcome, Reconciler, Request};
use kubecontroller::{App, Key, informer::InformerScope, manager, store::Index, store::Store};

const TO: &str = "mirror.example.com/to"; // on a config map: namespaces, with commas between them
const FROM: &str = "mirror.example.com/from"; // on a copy: what it is a copy of

fn main() -> std::process::ExitCode {
    App::new("configmap-mirror").register(setup).main()
}

pub(crate) fn setup(manager: &mut manager::Manager) -> Result<(), manager::BoxError> {
    let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
    let by_original = maps.store().index(|map| vec![original(map).to_string()]);
    let (client, store) = (manager.client().clone(), maps.store().clone());
    let controller = manager.controller("configmap-mirror");
    let controller = controller.watches(&maps, |change| vec![original(change.object())]);
    manager.add(controller.reconciler(Mirror(client, store, by_original)));
    Ok(())
}

struct Mirror(kube::Client, Store<ConfigMap>, Index<ConfigMap>);

impl Reconciler for Mirror {
    async fn reconcile(&self, Request { key, .. }: Request) -> Result<Outcome, Error> {
        let Mirror(client, store, by_original) = self;
        let api = |namespace: &str| Api::<ConfigMap>::namespaced(client.clone(), namespace);
        let map = store.get(&key).unwrap_or_default();
        let to = map.annotations().get(TO).map_or("", String::as_str).split(',');
        let wanted: Vec<&str> = to.filter(|to| !to.is_empty() && *to != key.namespace()).collect();
        for copy in by_original.keys(key.as_str()) {
            if copy != key && !wanted.contains(&copy.namespace()) {
                let api = api(copy.namespace());
                api.delete(copy.name(), &DeleteParams::default()).await?;
            }
        }
        let mut copy = ConfigMap::default();
        copy.data.clone_from(&map.data);
        copy.annotations_mut().insert(FROM.to_owned(), key.to_string());
        for namespace in wanted {
            let there = store.get(&Key::new(namespace, key.name()));
            if there.is_some_and(|there| original(&there) != key) {
                return Err(Error::permanent("there is another one of that name"));
            }
            let (api, params) = (api(namespace), PatchParams::apply("configmap-mirror").force());
            api.patch(key.name(), &params, &Patch::Apply(&copy)).await?;
        }
        Ok(Outcome::Done)
    }
}

/// What a config map is a copy of, or itself.
fn original(map: &ConfigMap) -> Key {
    let from = map.annotations().get(FROM).and_then(|key| key.parse().ok());
    from.unwrap_or_else(|| kubecontroller::object::Object::key(map))
}
