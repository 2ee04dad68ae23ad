//! `NodeRestriction` for certificates: PodCertificateRequests of pods on the node, and the node's own
//! CertificateSigningRequests.

use k3_api::{go, kinds::parse_certificate_request, status::Status, strategy::Tree};
use serde_json::Value;

use super::{MIRROR, NodeRequest, not_found};
use crate::{
    admission::{Operation, object},
    authz::Authorizer,
    cache::WatchCaches,
};

/// Who signs for nodes.
const OF_NODES: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// A node asks for a certificate of itself alone.
// upstream: plugin/pkg/admission/noderestriction/admission.go admitCSR
pub(super) fn of_node(asked: &NodeRequest<'_>) -> Result<(), Status> {
    let spec = asked.object().at("spec");
    if asked.attributes.operation != Operation::Create || !OF_NODES.contains(&spec.text("signerName")) {
        return Ok(());
    }
    let node = asked.node;
    match parse_certificate_request(spec.text("request")) {
        Ok(request) if request.identity().common_name == format!("system:node:{node}") => Ok(()),
        Ok(_) => asked.refuse(format!("can only create a node CSR with CN=system:node:{node}")),
        Err(why) => asked.refuse(format!("unable to parse csr: {why}")),
    }
}

/// A node asks for certificates of the pods it runs, from those who the pods name.
// upstream: plugin/pkg/admission/noderestriction/admission.go admitPodCertificateRequest
pub(super) fn of_pod(
    asked: &NodeRequest<'_>,
    authorizer: &Authorizer,
    caches: &WatchCaches,
) -> Result<(), Status> {
    if asked.attributes.operation != Operation::Create {
        return asked.refuse(format!("unexpected operation {}", asked.operation()));
    }
    if !asked.part().is_empty() {
        return asked.refuse(format!("unexpected subresource {}", asked.part()));
    }
    let spec = asked.object().at("spec");
    let namespace = asked.attributes.namespace;
    let full = |name: &str| go::quote(&format!("{namespace}/{name}"));
    let node = spec.text("nodeName");
    let pod_name = spec.text("podName");
    let account = spec.text("serviceAccountName");
    let quoted_node = go::quote(node);
    let quoted_pod = full(pod_name);
    if node != asked.node {
        return asked.refuse(format!(
            "PodCertificateRequest.Spec.NodeName={quoted_node}, which is not the requesting node {}",
            asked.quoted()
        ));
    }
    let look = |plural: &str, singular: &str, of: &str, name: &str, shown: &str| {
        object("", plural, of, name, caches).ok_or_else(|| {
            let missing = not_found("", singular, name).message;
            let what = if singular == "serviceaccount" {
                "service account"
            } else {
                singular
            };
            Status::unknown(format!(
                "while retrieving {what} {shown} named in the PodCertificateRequest: {missing}"
            ))
        })
    };
    let uid = |object: &Value| object.at("metadata").text("uid").to_owned();
    // A uid that differs may be one that this server does not know yet: whoever asks again may be right.
    let differs = |why: String| {
        Err(Status::unknown(format!(
            "PodCertificateRequest for pod {quoted_pod} {why}"
        )))
    };
    let node_uid = spec.text("nodeUID");
    let running_uid = uid(&look("nodes", "node", "", node, &quoted_node)?);
    if node_uid != running_uid {
        return differs(format!(
            "names node UID {}, inconsistent with the running node ({})",
            go::quote(node_uid),
            go::quote(&running_uid)
        ));
    }
    let pod = look("pods", "pod", namespace, pod_name, &quoted_pod)?;
    let pod_uid = spec.text("podUID");
    let running_uid = uid(&pod);
    if pod_uid != running_uid {
        return differs(format!(
            "contains pod UID ({}) which differs from running pod {}",
            go::quote(pod_uid),
            go::quote(&running_uid)
        ));
    }
    if pod.at("spec").text("nodeName") != node {
        return asked.refuse(format!(
            "pod {quoted_pod} is not running on node {quoted_node} named in the PodCertificateRequest"
        ));
    }
    if pod.at("metadata").entries("annotations").contains_key(MIRROR) {
        return asked.refuse(format!("pod {quoted_pod} is a mirror pod"));
    }
    let running = pod.at("spec").text("serviceAccountName");
    if account != running {
        let [account, running] = [account, running].map(go::quote);
        return asked.refuse(format!(
            "PodCertificateRequest for pod {quoted_pod} contains serviceAccountName ({account}) that differs from running pod \
             ({running})"
        ));
    }
    let known = look(
        "serviceaccounts",
        "serviceaccount",
        namespace,
        account,
        &full(account),
    )?;
    let said = spec.text("serviceAccountUID");
    let known = uid(&known);
    if said != known {
        let said = go::quote(said);
        let known = go::quote(&known);
        return differs(format!(
            "names service account UID {said}, which differs from the running service account ({known})"
        ));
    }
    let signer = spec.text("signerName");
    // Roles have no resources with slashes.
    let resource = signer.replace('/', ":");
    let verb = "request-serviceaccounts-podcertificate-signer";
    if names(&pod, signer) || asked.may(authorizer, verb, &resource, account) {
        return Ok(());
    }
    let signer = go::quote(signer);
    asked.refuse(format!(
        "pod {quoted_pod} does not mount a podCertificate projected volume for signer {signer}"
    ))
}

/// Whether a pod has a projected volume with a certificate of this signer.
fn names(pod: &Value, signer: &str) -> bool {
    let volumes = pod.at("spec").items("volumes").iter();
    volumes
        .flat_map(|volume| volume.at("projected").items("sources"))
        .any(|source| {
            source.has("podCertificate") && source.at("podCertificate").text("signerName") == signer
        })
}
