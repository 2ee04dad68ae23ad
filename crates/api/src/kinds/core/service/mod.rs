//! Services: a stable address for a changing set of pods.
//!
//! A service has fields that depend on each other, and addresses and ports that the server gives out. The functions
//! here say what to give out; who has what is for the server to know. Before its rules are asked, a service is settled
//! ([`settle_new`], [`settle_change`]), gets its [`addresses`] and then its [`node_ports`].

mod addresses;
mod cluster_ips;
mod families;
mod judgement;
mod policy;
mod ports;
mod refusal;
mod settlement;
mod table;
mod transition;

use std::borrow::Cow;

use serde_json::{Value, json};

pub use self::{
    addresses::{Address, AddressChanges, addresses, put_address},
    families::{Family, Ranges},
    ports::{PortChanges, Want, node_ports, put_health_port, put_node_port},
    refusal::{AddressFault, PortFault, refused_address, refused_health_port, refused_node_port},
    settlement::{complete, settle_change, settle_new},
};
use crate::{
    apply::managed::ResetFields,
    field::Path,
    kinds::reset_fields,
    name::{self, NameFormat},
    strategy::{Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut},
    time::Time,
};

pub(super) struct Service;

const CLUSTER_IP: &str = "ClusterIP";
const NODE_PORT: &str = "NodePort";
const LOAD_BALANCER: &str = "LoadBalancer";
const EXTERNAL_NAME: &str = "ExternalName";

/// The address of a service that has none.
const NONE: &str = "None";

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// How long a client stays with a pod, in seconds, when nobody says.
const AFFINITY_SECONDS: i64 = 10800;

const SELECTABLE: &[SelectableField] = &[
    SelectableField::rule("spec.clusterIP", |service| {
        Cow::Borrowed(service.at("spec").text("clusterIP"))
    }),
    SelectableField::rule("spec.type", |service| Cow::Borrowed(kind(service))),
];

// upstream: pkg/registry/core/service/strategy.go svcStrategy
impl RestStrategy for Service {
    fn name_format(&self) -> NameFormat {
        NameFormat::Label
    }

    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Service
    fn set_defaults(&self, object: &mut Value) {
        default_spec(object.ensure_object("spec"));
        if kind(object) == LOAD_BALANCER
            && let Some(balancer) = object
                .at_mut("status")
                .and_then(|status| status.at_mut("loadBalancer"))
        {
            for ingress in balancer.items_mut("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.set_default("ipMode", "VIP");
                }
            }
        }
    }

    // upstream: pkg/registry/core/service/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("status", old);
        transition::drop_what_no_longer_applies(new, old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        judgement::judge(errors, object, None);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        transition::judge(errors, new, old);
        judgement::judge(errors, new, Some(old));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        judgement::load_balancer(errors, new, old);
    }

    // upstream: pkg/registry/core/service/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        policy::warnings(new)
    }

    /// Addresses that are read in more than one way.
    fn status_warnings(&self, new: &Value, _: &Value) -> Vec<String> {
        let status = Path::new("status");
        let balancer = status.child("loadBalancer");
        let field_path = balancer.child("ingress");
        let ingress = new.at_path("status.loadBalancer").items("ingress");
        ingress
            .iter()
            .enumerate()
            .filter_map(|(index, ingress)| name::ip_warning(&field_path.index(index), ingress.text("ip")))
            .collect()
    }

    // upstream: pkg/registry/core/service/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    // upstream: pkg/registry/core/service/strategy.go SelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        SELECTABLE
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printService
    fn row(&self, object: &Value, now: Time) -> Row {
        table::row(object, now)
    }
}

fn default_spec(spec: &mut Value) {
    let fill_text = |object: &mut Value, name: &str, word: &str| {
        if object.text(name).is_empty() {
            object.set(name, word);
        }
    };
    fill_text(spec, "sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP"
            if spec
                .at_path("sessionAffinityConfig.clientIP.timeoutSeconds")
                .is_null() =>
        {
            let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            spec.set("sessionAffinityConfig", config);
        }
        _ => {}
    }
    fill_text(spec, "type", CLUSTER_IP);
    for port in spec.items_mut("ports") {
        fill_text(port, "protocol", "TCP");
        let target = port.at("targetPort");
        if target.is_null() || target == &json!(0) || target == &json!("") {
            let number = port.int("port").unwrap_or_default();
            port.set("targetPort", number);
        }
    }
    if is_externally_accessible(spec) {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(spec.text("type"), NODE_PORT | LOAD_BALANCER | CLUSTER_IP) {
        spec.set_default("internalTrafficPolicy", "Cluster");
    }
    if spec.text("type") == LOAD_BALANCER {
        spec.set_default("allocateLoadBalancerNodePorts", true);
    }
}

fn kind(service: &Value) -> &str {
    service.at("spec").text("type")
}

/// Whether it has no address of its own: DNS gives those of its pods.
fn is_headless(service: &Value) -> bool {
    matches!(service.at("spec").items("clusterIPs"), [only] if only == NONE)
}

/// Whether it can be reached from outside the cluster.
fn is_externally_accessible(spec: &Value) -> bool {
    match spec.text("type") {
        LOAD_BALANCER | NODE_PORT => true,
        CLUSTER_IP => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether the load balancer must find out which nodes have pods of it.
fn needs_health_check(service: &Value) -> bool {
    kind(service) == LOAD_BALANCER && service.at("spec").text("externalTrafficPolicy") == "Local"
}

#[cfg(test)]
mod tests;
