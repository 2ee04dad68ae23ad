//! Validation of PodSpec, in pods and templates.

use serde_json::Value;

use super::{
    affinity, annotations,
    container::{self, PodContext},
    env,
    error_list::ErrorListExt,
    host, internal,
    options::PodValidationOptions,
    pod_level_resources, profile, security, spread, toleration, windows,
};
use crate::{
    field::{Error, Path},
    go,
    kinds::{core::volume, field_checks},
    name::{self, validate_dns1123_label, validate_dns1123_subdomain, validate_label_key},
    strategy::{ErrorList, Tree},
};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION_POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

const NAME_FIELDS: [&str; 2] = ["serviceAccountName", "nodeName"];

// upstream: pkg/apis/core/validation/validation.go validatePodMetadataAndSpec
pub(super) fn validate_pod(pod: &Value, options: &PodValidationOptions, errors: &mut ErrorList) {
    let metadata = pod.at("metadata");
    let spec = pod.at("spec");
    let field_path = Path::new("metadata");
    annotations::validate_pod_annotations(metadata, spec, options, &field_path.child("annotations"), errors);
    let at = Path::new("spec");
    validate(spec, metadata, &at, options, errors);
    if spec.text("serviceAccountName").is_empty() {
        reject_tokens_without_service_account(spec.items("volumes"), &at.child("volumes"), errors);
    }
    if let Some(seconds) = spec.int("terminationGracePeriodSeconds") {
        errors.not_negative(&at.child("terminationGracePeriodSeconds"), seconds);
    }
    for list in ["containers", "initContainers"] {
        let list_at = at.child(list);
        for (index, item) in spec.items(list).iter().enumerate() {
            container::validate_image(item, &list_at.index(index), errors);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodCreate
pub(super) fn validate_pod_create(pod: &Value, errors: &mut ErrorList) {
    validate_pod(pod, &PodValidationOptions::for_new_pod(), errors);
    let spec = pod.at("spec");
    let at = Path::new("spec");
    if !spec.items("ephemeralContainers").is_empty() {
        errors.forbidden(&at.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&at.child("nodeName"), detail);
    }
    profile::validate_annotations_match_fields(pod.at("metadata"), spec, &at, errors);
}

/// Validates a PodSpec. `metadata` is that of the pod, `null` for a template.
// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec
pub(super) fn validate(
    spec: &Value,
    metadata: &Value,
    at: &Path<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    if !spec.has("terminationGracePeriodSeconds") {
        errors.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = volume::validate_volumes(spec.items("volumes"), &at.child("volumes"), metadata, errors)
        .into_iter()
        .map(|volume| (volume.text("name"), volume))
        .collect();
    let claims: Vec<&str> = spec
        .items("resourceClaims")
        .iter()
        .map(|claim| claim.text("name"))
        .filter(|name| !name.is_empty())
        .collect();
    validate_resource_claims(
        spec.items("resourceClaims"),
        metadata,
        &at.child("resourceClaims"),
        errors,
    );
    let pod = PodContext {
        spec,
        volumes: &volumes,
        claims: &claims,
        options,
    };
    pod.validate_containers(&at.child("containers"), errors);
    pod.validate_init_containers(&at.child("initContainers"), errors);
    pod.validate_ephemeral_containers(&at.child("ephemeralContainers"), errors);
    pod_level_resources::validate_pod_resources(spec, &claims, &at.child("resources"), options, errors);
    host::validate_host_network(spec, options, at, errors);
    errors.required_enum(
        &at.child("restartPolicy"),
        spec.text("restartPolicy"),
        &RESTART_POLICIES,
    );
    errors.required_enum(&at.child("dnsPolicy"), spec.text("dnsPolicy"), &DNS_POLICIES);
    errors.extend(name::validate_labels(
        &at.child("nodeSelector"),
        spec.entries("nodeSelector"),
    ));
    security::validate_pod_security_context(spec, options, &at.child("securityContext"), errors);
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&at.child("shareProcessNamespace"), Value::Bool(true), detail);
    }
    affinity::validate_affinity(spec.at("affinity"), options, &at.child("affinity"), errors);
    host::validate_dns_config(spec, &at.child("dnsConfig"), errors);
    validate_gates(spec, at, errors);
    let constraints = spec.items("topologySpreadConstraints");
    spread::validate_topology_spread_constraints(
        constraints,
        options,
        &at.child("topologySpreadConstraints"),
        errors,
    );
    windows::validate_host_processes(spec, at, errors);
    host::validate_host_users(spec, options, at, errors);
    host::validate_hostname_override(spec, at, errors);
    validate_names(spec, at, errors);
    toleration::validate_tolerations(
        spec.items("tolerations"),
        options,
        &at.child("tolerations"),
        errors,
    );
    host::validate_host_aliases(spec.items("hostAliases"), &at.child("hostAliases"), errors);
    validate_scheduling(spec, options, at, errors);
    windows::validate_os(spec, at, errors);
    if spec.has("schedulingGroup") {
        validate_scheduling_group(spec, &at.child("schedulingGroup"), errors);
    }
    env::validate_file_key_ref_volumes(spec, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validatePodMetadataAndSpec
fn reject_tokens_without_service_account(volumes: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    for (index, volume) in volumes.iter().enumerate() {
        let sources = volume.at("projected").items("sources").iter().enumerate();
        for (number, _) in sources.filter(|(_, source)| source.has("serviceAccountToken")) {
            let volume_at = at.index(index);
            let projected_at = volume_at.child("projected");
            let sources_at = projected_at.child("sources");
            let source_at = sources_at.index(number);
            let detail = "must not be specified when serviceAccountName is not set";
            errors.forbidden(&source_at.child("serviceAccountToken"), detail);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodResourceClaims, validatePodResourceClaim
fn validate_resource_claims(claims: &[Value], metadata: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let repeated = field_checks::duplicate_flags(claims.iter().map(|claim| claim.text("name")));
    for (index, claim) in claims.iter().enumerate() {
        if metadata.at("annotations").has(annotations::MIRROR) {
            errors.forbidden(&Path::new(""), "static pods do not support resource claims");
            continue;
        }
        let field_path = at.index(index);
        let name = claim.text("name");
        let name_at = field_path.child("name");
        if name.is_empty() {
            errors.required(&name_at, "");
        } else if repeated[index] {
            errors.duplicate(&name_at, name);
        } else {
            errors.push_invalid(&name_at, name, validate_dns1123_label(name));
        }
        let by_name = claim.at("resourceClaimName");
        let by_template = claim.at("resourceClaimTemplateName");
        let mut whole = |detail: &str| {
            errors.invalid(
                &field_path,
                internal::internal_value("PodResourceClaim", claim),
                detail,
            );
        };
        match (by_name.is_null(), by_template.is_null()) {
            (false, false) => {
                whole("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
            }
            (true, true) => whole("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => {}
        }
        for (field, value) in [
            ("resourceClaimName", by_name),
            ("resourceClaimTemplateName", by_template),
        ] {
            if let Some(name) = value.as_str() {
                errors.push_invalid(&field_path.child(field), name, validate_dns1123_subdomain(name));
            }
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateReadinessGates, validateSchedulingGates
fn validate_gates(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let list_at = at.child("readinessGates");
    for (index, gate) in spec.items("readinessGates").iter().enumerate() {
        let condition = gate.text("conditionType");
        errors.push_invalid(
            &list_at.index(index).child("conditionType"),
            condition,
            validate_label_key(condition),
        );
    }
    let list_at = at.child("schedulingGates");
    let gates = spec.items("schedulingGates");
    let repeated = field_checks::duplicate_flags(gates.iter().map(|gate| gate.text("name")));
    for (index, gate) in gates.iter().enumerate() {
        let name = gate.text("name");
        errors.push_invalid(&list_at.index(index), name, validate_label_key(name));
        if repeated[index] {
            errors.duplicate(&list_at.index(index), name);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec
fn validate_names(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in NAME_FIELDS {
        let name = spec.text(field);
        if !name.is_empty() {
            errors.push_invalid(&at.child(field), name, validate_dns1123_subdomain(name));
        }
        let old = spec.text("serviceAccount");
        let new = spec.text("serviceAccountName");
        if field == "serviceAccountName" && old != new {
            let detail = format!("must be the same as serviceAccountName: {}", go::quote(new));
            errors.invalid(&at.child("deprecatedServiceAccount"), old, detail);
        }
    }
    if let Some(seconds) = spec.int("activeDeadlineSeconds") {
        for msg in name::validate_in_range(seconds, 1, i64::from(i32::MAX)) {
            errors.invalid(&at.child("activeDeadlineSeconds"), seconds, msg);
        }
    }
    host::validate_hostname_and_subdomain(spec, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec
fn validate_scheduling(spec: &Value, options: &PodValidationOptions, at: &Path<'_>, errors: &mut ErrorList) {
    let name = spec.text("priorityClassName");
    if !name.is_empty() {
        errors.push_invalid(
            &at.child("priorityClassName"),
            name,
            validate_dns1123_subdomain(name),
        );
    }
    if let Some(name) = spec.at("runtimeClassName").as_str() {
        errors.push_invalid(
            &at.child("runtimeClassName"),
            name,
            validate_dns1123_subdomain(name),
        );
    }
    if spec.has("preemptionPolicy") {
        let policy = spec.text("preemptionPolicy");
        errors.required_enum(&at.child("preemptionPolicy"), policy, &PREEMPTION_POLICIES);
    }
    if spec.has("overhead") {
        let limits = serde_json::json!({"limits": spec.at("overhead")});
        let holder = super::resources::ResourceOwner::Container;
        let field_path = at.child("overhead");
        super::resources::validate_requirements(&limits, holder, &[], options.pages, &field_path, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateSchedulingGroup
fn validate_scheduling_group(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name_at = at.child("podGroupName");
    match spec.at("schedulingGroup").at("podGroupName").as_str() {
        None => errors.push(Error::invalid(
            &name_at,
            Value::Null,
            "must specify one of: `podGroupName`",
        )),
        Some(name) => errors.push_invalid(&name_at, name, validate_dns1123_subdomain(name)),
    }
    if !spec.items("evictionResponders").is_empty() {
        errors.forbidden(at, "may not be set when evictionResponders is set");
    }
}
