//! Claims, and the volumes of the cluster that they are bound to.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod, Volume,
};

use super::{
    error::Trouble,
    host_path::Kind,
    layout::{Plugin, steps_back},
    recipe::{Kitchen, Named, Recipe, unsupported},
};
use crate::Facts;

/// A claim with this finalizer is not gone while a pod uses it.
const PROTECTED: &str = "kubernetes.io/pvc-protection";
/// Who made a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The provisioner of the class `local-path`, whose folders are made here.
const LOCAL_PATH: &str = "k3.io/local-path";

/// What has to be done for a volume that is a claim, or has one of its own.
pub(super) async fn recipe(kitchen: &Kitchen<'_>, volume: &Volume) -> Result<Named, Trouble> {
    let pod_name = kitchen.pod.metadata.name.as_deref().unwrap_or_default();
    let (name, wants_read_only, is_own) = match &volume.persistent_volume_claim {
        Some(source) => (source.claim_name.clone(), source.read_only == Some(true), false),
        None => (format!("{pod_name}-{}", volume.name), false, true),
    };
    let processing = |why: String| {
        Trouble::Unknown(format!(
            "error processing PVC {}/{name}: {why}",
            kitchen.namespace
        ))
    };

    let claim = kitchen.sources.claim(kitchen.namespace, &name).await;
    let claim = match claim {
        Ok(Some(claim)) => claim,
        Ok(None) => {
            let why = format!("persistentvolumeclaims {name:?} not found");
            return Err(processing(format!("failed to fetch PVC from API server: {why}")));
        }
        Err(error) => {
            return Err(processing(format!(
                "failed to fetch PVC from API server: {error}"
            )));
        }
    };
    let bound = bound_to(&claim).map_err(|why| processing(why.to_owned()))?;
    if is_own && !is_of(&claim, kitchen.pod) {
        return Err(Trouble::Unknown(format!(
            "PVC {0}/{name} was not created for pod {0}/{pod_name} (pod is not owner)",
            kitchen.namespace
        )));
    }

    let fetched = kitchen.sources.volume(bound).await;
    let persistent = match fetched {
        Ok(Some(persistent)) => persistent,
        Ok(None) => {
            let why = format!("persistentvolumes {bound:?} not found");
            return Err(processing(format!(
                "failed to fetch PV {bound} from API server: {why}"
            )));
        }
        Err(error) => {
            return Err(processing(format!(
                "failed to fetch PV {bound} from API server: {error}"
            )));
        }
    };
    is_for(&persistent, &claim).map_err(processing)?;
    of_volume(kitchen, volume, &persistent, wants_read_only)
}

/// The volume that a claim is bound to.
fn bound_to(claim: &PersistentVolumeClaim) -> Result<&str, &'static str> {
    let meta = &claim.metadata;
    let is_protected = meta
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == PROTECTED);
    if meta.deletion_timestamp.is_some() && !is_protected {
        return Err("PVC is being deleted");
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Err("PVC is not bound");
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    volume
        .filter(|volume| !volume.is_empty())
        .ok_or("PVC has empty pvc.Spec.VolumeName")
}

/// Whether a claim was made for a pod.
fn is_of(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Whether a volume knows the claim that is bound to it.
fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), String> {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(reference) = reference else {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    };
    if reference.uid == claim.metadata.uid {
        return Ok(());
    }
    let [known, expected] =
        [&reference.uid, &claim.metadata.uid].map(|uid| uid.as_deref().unwrap_or_default());
    Err(format!(
        "found PV object {name} but its pv.Spec.ClaimRef.UID {known} does not point to claim.UID {expected}"
    ))
}

/// What has to be done for a volume of the cluster.
fn of_volume(
    kitchen: &Kitchen<'_>,
    volume: &Volume,
    persistent: &PersistentVolume,
    wants_read_only: bool,
) -> Result<Named, Trouble> {
    let name = persistent.metadata.name.clone().unwrap_or_default();
    let Some(spec) = &persistent.spec else {
        return Err(unsupported(&name, "a volume without a type"));
    };
    let mode = spec.volume_mode.as_deref().unwrap_or("Filesystem");
    if mode != "Filesystem" {
        return Err(Trouble::Unknown(format!(
            "volume {} has volumeMode {mode}, but is specified in volumeMounts",
            volume.name
        )));
    }
    let terms = spec
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref());
    if let Some(required) = terms
        && !required
            .node_selector_terms
            .iter()
            .any(|term| matches(term, kitchen.facts))
    {
        return Err(Trouble::step(
            "NodeAffinity check",
            &name,
            "no matching NodeSelectorTerms",
        ));
    }
    let set_up = |why: String| Trouble::step("SetUp", &name, &why);
    let recipe = if let Some(source) = &spec.host_path {
        let maker = persistent
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(PROVISIONED_BY));
        let kind = match Kind::of(source.type_.as_deref()).map_err(set_up)? {
            Kind::DirectoryOrCreate if maker.is_some_and(|maker| maker == LOCAL_PATH) => {
                Kind::OpenDirectoryOrCreate
            }
            kind => kind,
        };
        Recipe::Host {
            path: PathBuf::from(&source.path),
            kind,
            read_only: wants_read_only,
        }
    } else if let Some(source) = &spec.local {
        if source.path.is_empty() {
            return Err(set_up(format!("LocalVolume volume {name:?} path is empty")));
        }
        if steps_back(&source.path) {
            return Err(set_up(format!(
                "invalid path: {} must not contain '..'",
                source.path
            )));
        }
        Recipe::Bind {
            source: PathBuf::from(&source.path),
            path: kitchen.path(Plugin::Local, &name),
            read_only: wants_read_only,
        }
    } else if spec.csi.is_some() {
        return Err(unsupported(&name, "csi"));
    } else if spec.nfs.is_some() {
        return Err(unsupported(&name, "nfs"));
    } else {
        return Err(unsupported(&name, "volumes that are neither hostPath nor local"));
    };
    let is_exclusive = spec.access_modes.as_deref() == Some(&["ReadWriteOncePod".to_owned()]);
    Ok(Named {
        name,
        recipe,
        is_exclusive,
    })
}

// --- Affinity ---

/// Whether a node is one of those that a term means. A term that says nothing means none.
fn matches(term: &NodeSelectorTerm, facts: &Facts) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let has = |expression: &NodeSelectorRequirement| {
        holds(
            expression,
            facts.node_labels.get(&expression.key).map(String::as_str),
        )
    };
    let is = |expression: &NodeSelectorRequirement| {
        expression.key == "metadata.name" && holds(expression, Some(&facts.node_name))
    };
    !(labels.is_empty() && fields.is_empty()) && labels.iter().all(has) && fields.iter().all(is)
}

fn holds(expression: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = expression.values.as_deref().unwrap_or_default();
    let is_named = value.is_some_and(|value| values.iter().any(|named| named == value));
    let compared = || {
        let number: i64 = value?.parse().ok()?;
        let bound: i64 = values.first()?.parse().ok()?;
        Some(number.cmp(&bound))
    };
    match expression.operator.as_str() {
        "In" => is_named,
        "NotIn" => !is_named,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}
