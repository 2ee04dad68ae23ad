//! Classes of attributes of volumes stay as long as a claim or a volume names them.

use kubecontroller::{
    Key,
    controller::{Outcome, Predicate, reconcile_fn},
    informer::Delta,
    store::By,
};
use serde::de::IgnoredAny;

use super::{Hold, write};
use crate::{
    context::{ControllerContext, Task},
    objects::{PersistentVolume, PersistentVolumeClaim, Projection},
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES},
};

const FINALIZER: &str = "kubernetes.io/vac-protection";

type Class = Projection<IgnoredAny>;

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let classes = context.informer::<Class>(&VOLUME_ATTRIBUTES_CLASSES);
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let by_claims: By<PersistentVolumeClaim> = claims.store().shared_index("attributes", named_by_claim);
    let by_volumes: By<PersistentVolume> = volumes.store().shared_index("attributes", named_by_volume);
    let (writer, store) = (context.writer.clone(), classes.store().clone());
    let matters = |delta: &Delta<Class>| {
        let new = delta.new();
        new.is_some_and(|class| Hold::of(&**class, FINALIZER) != Hold::Leave)
    };
    let runner = context
        .controller("volumeattributesclass-protection-controller")
        .for_where(&classes, Predicate::new(matters))
        .watches(&claims, |delta| let_go(delta, named_by_claim))
        .watches(&volumes, |delta| let_go(delta, named_by_volume))
        .reconciler(reconcile_fn(move |request| {
            let (writer, class) = (writer.clone(), store.get(&request.key));
            let name = request.key.name();
            let is_used = by_claims.count(name) > 0 || by_volumes.count(name) > 0;
            async move {
                let Some(class) = class else {
                    return Ok(Outcome::Done);
                };
                let is_held = match Hold::of(&*class, FINALIZER) {
                    Hold::Add => true,
                    Hold::Consider if !is_used => false,
                    _ => return Ok(Outcome::Done),
                };
                let metadata = &class.metadata;
                write(&writer, &VOLUME_ATTRIBUTES_CLASSES, metadata, FINALIZER, is_held).await?;
                Ok(Outcome::Done)
            }
        }));
    vec![Box::new(runner)]
}

/// The classes that a claim names: that it asks for, that it has, and that it is on its way to.
fn named_by_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = &claim.status;
    let target = status.modify_volume_status.as_ref();
    let target = target.map(|target| &*target.target_volume_attributes_class_name);
    let mut names: Vec<String> = [
        claim.spec.volume_attributes_class_name.as_deref(),
        status.current_volume_attributes_class_name.as_deref(),
        target,
    ]
    .into_iter()
    .flatten()
    .filter(|name| !name.is_empty())
    .map(str::to_owned)
    .collect();
    names.sort();
    names.dedup();
    names
}

/// The class that a volume names.
fn named_by_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.volume_attributes_class_name.as_deref();
    name.filter(|name| !name.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// The classes that are not named any more.
fn let_go<T>(delta: &Delta<T>, named: fn(&T) -> Vec<String>) -> Vec<Key> {
    let (before, still) = match delta {
        Delta::Deleted { last, .. } => (named(last), Vec::new()),
        _ => (
            delta.old().map(|old| named(old)).unwrap_or_default(),
            named(delta.object()),
        ),
    };
    let gone = before.iter().filter(|name| !still.contains(name));
    gone.map(|name| Key::new("", name)).collect()
}
