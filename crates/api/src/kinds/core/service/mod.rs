//! Service: a stable address for a set of pods.
//!
//! Fields of a service depend on each other, and the server allocates its addresses and ports. The functions here compute what to
//! allocate; the allocators are the server's. Before validation a service is defaulted ([`default_on_create`],
//! [`default_on_update`]), gets its [`cluster_ip_changes`] and then its [`node_port_changes`].

mod addresses;
mod allocation_errors;
mod cluster_ips;
mod defaulting;
mod families;
mod policy;
mod ports;
mod table;
mod update;
mod validation;

use std::borrow::Cow;

use serde_json::{Value, json};

pub use self::{
    addresses::{ClusterIpChanges, ClusterIpRequest, cluster_ip_changes, set_cluster_ip},
    allocation_errors::{
        IpAllocationError, NodePortAllocationError, health_check_node_port_status, ip_allocation_status,
        node_port_allocation_status,
    },
    defaulting::{default_on_create, default_on_read, default_on_update},
    families::{IpFamily, ServiceIpFamilies},
    ports::{NodePortRequest, PortChanges, node_port_changes, set_health_check_node_port, set_node_port},
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

/// `clusterIP` of a headless service.
const NONE: &str = "None";

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// Default timeout of ClientIP session affinity.
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
        set_defaults_service_spec(object.ensure_object("spec"));
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
        update::drop_type_dependent_fields(new, old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validation::validate_service(errors, object, None);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        update::validate_service_update(errors, new, old);
        validation::validate_service(errors, new, Some(old));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateServiceStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate_load_balancer_status(errors, new, old);
    }

    // upstream: pkg/registry/core/service/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        policy::get_warnings_for_service(new)
    }

    /// Warns of addresses in a non-canonical form.
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
        table::print_service(object, now)
    }
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Service
fn set_defaults_service_spec(spec: &mut Value) {
    let fill_text = |object: &mut Value, name: &str, text: &str| {
        if object.text(name).is_empty() {
            object.set(name, text);
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
            let number = port.int_or_zero("port");
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

// upstream: pkg/apis/core/validation/validation.go isHeadlessService
fn is_headless(service: &Value) -> bool {
    matches!(service.at("spec").items("clusterIPs"), [only] if only == NONE)
}

// upstream: pkg/api/service/util.go ExternallyAccessible
fn is_externally_accessible(spec: &Value) -> bool {
    match spec.text("type") {
        LOAD_BALANCER | NODE_PORT => true,
        CLUSTER_IP => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether a load balancer needs a health check node port.
// upstream: pkg/api/service/util.go NeedsHealthCheck
fn needs_health_check(service: &Value) -> bool {
    kind(service) == LOAD_BALANCER && service.at("spec").text("externalTrafficPolicy") == "Local"
}

#[cfg(test)]
mod tests;
