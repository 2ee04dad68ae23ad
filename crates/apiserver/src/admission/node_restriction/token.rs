//! `NodeRestriction` for TokenRequests: a kubelet may request tokens of its pods' service accounts only, for declared
//! audiences.

use k3_api::{go, status::Status, strategy::Tree};
use serde_json::Value;

use super::{NodeRequest, not_found};
use crate::{
    admission::{Operation, object},
    authz::Authorizer,
    cache::WatchCaches,
};

/// Volumes from before there were drivers, and the drivers that serve them now.
const DRIVERS: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

// upstream: plugin/pkg/admission/noderestriction/admission.go admitServiceAccount
pub(super) fn admit(
    asked: &NodeRequest<'_>,
    authorizer: &Authorizer,
    caches: &WatchCaches,
) -> Result<(), Status> {
    if asked.attributes.operation != Operation::Create || asked.part() != "token" {
        return Ok(());
    }
    let spec = asked.object().at("spec");
    let bound = spec.at("boundObjectRef");
    let name = bound.text("name");
    let uid = bound.text("uid");
    if bound.text("apiVersion") != "v1" || bound.text("kind") != "Pod" || name.is_empty() {
        return asked.refuse("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return asked.refuse("node requested token with a pod binding without a uid");
    }
    let pod = asked.pod(name, caches)?;
    if pod.at("metadata").text("uid") != uid {
        return asked.refuse(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        ));
    }
    if pod.at("spec").text("nodeName") != asked.node {
        return asked.refuse("node requested token bound to a pod scheduled on a different node");
    }
    let audiences: Vec<_> = spec.texts("audiences").collect();
    let audience = match audiences.as_slice() {
        [] => "",
        [audience] => *audience,
        _ => return asked.refuse("node may only request 0 or 1 audiences"),
    };
    let quoted = go::quote(audience);
    match speaks_to(&pod, audience, caches) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(why) => return asked.refuse(format!("error validating audience {quoted}: {why}")),
    }
    let verb = "request-serviceaccounts-token-audience";
    if asked.may(authorizer, verb, audience, asked.name()) {
        return Ok(());
    }
    let user = &asked.attributes.ctx.user.name;
    asked.refuse(format!(
        "{user} is not authorized to request tokens for audience {quoted}"
    ))
}

/// Why it is not known whether a pod needs tokens for an audience: the errors of its volumes.
#[derive(Debug, thiserror::Error)]
enum AudienceError {
    #[error("{}", .0.message)]
    One(Status),
    #[error("[{}]", messages(.0))]
    Several(Vec<Status>),
}

fn messages(errors: &[Status]) -> String {
    let messages: Vec<&str> = errors.iter().map(|status| status.message.as_str()).collect();
    messages.join(", ")
}

/// Whether a pod has a projected token volume for this audience, or a CSI volume whose driver requests such a token.
fn speaks_to(pod: &Value, audience: &str, caches: &WatchCaches) -> Result<bool, AudienceError> {
    let mut errors = Vec::new();
    for volume in pod.at("spec").items("volumes") {
        let mut sources = volume.at("projected").items("sources").iter();
        if sources.any(|source| {
            let token = source.at("serviceAccountToken");
            !token.is_null() && token.text("audience") == audience
        }) {
            return Ok(true);
        }
        match driver(pod, volume, caches).and_then(|driver| needs(&driver, audience, caches)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(status) => errors.push(status),
        }
    }
    match errors.pop() {
        None => Ok(false),
        Some(only) if errors.is_empty() => Err(AudienceError::One(only)),
        Some(last) => {
            errors.push(last);
            Err(AudienceError::Several(errors))
        }
    }
}

/// The driver of a volume; empty if it has none.
fn driver(pod: &Value, volume: &Value, caches: &WatchCaches) -> Result<String, Status> {
    let namespace = pod.at("metadata").text("namespace");
    if volume.at("ephemeral").has("volumeClaimTemplate") {
        let name = format!("{}-{}", pod.at("metadata").text("name"), volume.text("name"));
        return claim_driver(namespace, &name, caches);
    }
    if volume.has("persistentVolumeClaim") {
        let name = volume.at("persistentVolumeClaim").text("claimName");
        return claim_driver(namespace, name, caches);
    }
    Ok(source_driver(volume).to_owned())
}

/// The driver of the volume that a claim has.
fn claim_driver(namespace: &str, name: &str, caches: &WatchCaches) -> Result<String, Status> {
    let claim = object("", "persistentvolumeclaims", namespace, name, caches)
        .ok_or_else(|| not_found("", "persistentvolumeclaim", name))?;
    let name = claim.at("spec").text("volumeName");
    let volume = object("", "persistentvolumes", "", name, caches)
        .ok_or_else(|| not_found("", "persistentvolume", name))?;
    Ok(source_driver(volume.at("spec")).to_owned())
}

fn source_driver(source: &Value) -> &str {
    match source.at("csi").text("driver") {
        "" => DRIVERS
            .iter()
            .find(|(kind, _)| source.has(kind))
            .map_or("", |(_, driver)| driver),
        driver => driver,
    }
}

/// Whether a CSI driver requests tokens for this audience.
// upstream: plugin/pkg/admission/noderestriction/admission.go csiDriverHasAudience
fn needs(driver: &str, audience: &str, caches: &WatchCaches) -> Result<bool, Status> {
    if driver.is_empty() {
        return Ok(false);
    }
    let group = "storage.k8s.io";
    let known = object(group, "csidrivers", "", driver, caches)
        .ok_or_else(|| not_found(group, "csidriver", driver))?;
    let mut requests = known.at("spec").items("tokenRequests").iter();
    Ok(requests.any(|request| request.text("audience") == audience))
}
