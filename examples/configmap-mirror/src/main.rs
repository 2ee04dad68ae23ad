//! Keeps copies of config maps in the namespaces that their annotation names.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, ResourceExt};
use kubecontroller::controller::{Error, Outcome, Request, reconcile_fn};
use kubecontroller::manager::{BoxError, Manager, Setup};
use kubecontroller::store::{By, Store};
use kubecontroller::{App, Key, informer::Scope};

const TO: &str = "mirror.example.com/to"; // on a config map: namespaces, with commas between them
const FROM: &str = "mirror.example.com/from"; // on a copy: what it is a copy of

fn main() -> ExitCode {
    App::new("configmap-mirror").with(Mirror).main()
}

pub(crate) struct Mirror;

impl Setup for Mirror {
    fn name(&self) -> &'static str { "configmap-mirror" }
    fn resource(&self) -> &'static str { "configmaps" }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let maps = manager.informers().typed::<ConfigMap>(Scope::default());
        let (client, store) = (manager.client().clone(), maps.store().clone());
        let copies = store.index(|map| from(map).map(str::to_owned).into_iter().collect());
        let controller = manager
            .controller("configmap-mirror")
            .for_(&maps)
            .watches(&maps, |delta| from(delta.object()).and_then(|key| key.parse().ok()).into_iter().collect())
            .reconciler(reconcile_fn(move |Request { key, .. }| mirror(client.clone(), store.clone(), copies.clone(), key)));
        manager.add(controller);
        Ok(())
    }
}

/// Makes the copies that should be there, and deletes those that should not.
async fn mirror(client: kube::Client, maps: Store<ConfigMap>, copies: By<ConfigMap>, key: Key) -> Result<Outcome, Error> {
    let api = |namespace: &str| Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let source = maps.get(&key).unwrap_or_default();
    let to = source.annotations().get(TO).map_or("", String::as_str).split(',');
    let wanted: Vec<&str> = to.filter(|to| !to.is_empty() && *to != key.namespace()).collect();
    let mut copy = ConfigMap { data: source.data.clone(), binary_data: source.binary_data.clone(), ..ConfigMap::default() };
    copy.annotations_mut().insert(FROM.to_owned(), key.to_string());
    for namespace in &wanted {
        if maps.get(&Key::new(namespace, key.name())).is_some_and(|there| from(&there) != Some(key.as_str())) {
            return Err(Error::permanent(format!("{namespace} has another {}", key.name())));
        }
        api(namespace).patch(key.name(), &PatchParams::apply("configmap-mirror").force(), &Patch::Apply(&copy)).await?;
    }
    for gone in copies.keys(key.as_str()).iter().filter(|copy| !wanted.contains(&copy.namespace())) {
        api(gone.namespace()).delete(gone.name(), &DeleteParams::default()).await?;
    }
    Ok(Outcome::Done)
}

/// What a copy is a copy of.
fn from(map: &ConfigMap) -> Option<&str> {
    map.annotations().get(FROM).map(String::as_str)
}
