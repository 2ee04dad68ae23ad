//! Containers, init containers and ephemeral containers.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    env,
    error_list::ErrorListExt,
    handler, mount,
    options::{PodValidationOptions, is_sidecar},
    resources::{self, ResourceOwner},
    restart, security,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{validate_dns1123_label, validate_port_name, validate_port_number},
    strategy::{ErrorList, Tree},
};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Fields of init containers that require restartPolicy Always (sidecar containers, KEP-753).
const SIDECAR_FIELDS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Fields that ephemeral containers may not have, in the order of their errors.
const FORBIDDEN_FOR_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// What the validation of a container needs of its pod.
pub(super) struct PodContext<'p> {
    /// Its spec.
    pub(super) spec: &'p Value,
    /// Its valid volumes.
    pub(super) volumes: &'p mount::VolumesByName<'p>,
    /// The names of its resource claims.
    pub(super) claims: &'p [&'p str],
    /// Relaxed rules.
    pub(super) options: &'p PodValidationOptions,
}

impl PodContext<'_> {
    fn grace(&self) -> Option<i64> {
        self.spec.int("terminationGracePeriodSeconds")
    }

    // upstream: pkg/apis/core/validation/validation.go validateContainers
    pub(super) fn validate_containers(&self, at: &Path<'_>, errors: &mut ErrorList) {
        let containers = self.spec.items("containers");
        if containers.is_empty() {
            return errors.required(at, "");
        }
        let repeated =
            field_checks::duplicate_flags(containers.iter().map(|container| container.text("name")));
        for (index, container) in containers.iter().enumerate() {
            let field_path = at.index(index);
            self.validate(container, &field_path, errors);
            let name = container.text("name");
            if repeated[index] {
                errors.duplicate(&field_path.child("name"), name);
            }
            handler::validate_probes_and_lifecycle(
                container,
                self.spec.at("os"),
                self.grace(),
                &field_path,
                errors,
            );
            restart::validate_restart_policy(container, &field_path, errors);
        }
        check_host_port_conflicts(containers, at, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go validateInitContainers
    pub(super) fn validate_init_containers(&self, at: &Path<'_>, errors: &mut ErrorList) {
        let containers = self.spec.items("initContainers");
        let repeated =
            field_checks::duplicate_flags(containers.iter().map(|container| container.text("name")));
        let working: HashSet<_> = self
            .spec
            .items("containers")
            .iter()
            .map(|other| other.text("name"))
            .collect();
        for (index, container) in containers.iter().enumerate() {
            let field_path = at.index(index);
            self.validate(container, &field_path, errors);
            restart::validate_init_restart_policy(container, &field_path, errors);
            let name = container.text("name");
            // Only regular containers collide without a name.
            if working.contains(name) || (!name.is_empty() && repeated[index]) {
                errors.duplicate(&field_path.child("name"), name);
            }
            // Init containers run one by one, so each is validated alone, as if it were the first.
            check_host_port_conflicts(&containers[index..=index], at, errors);
            if is_sidecar(container) {
                handler::validate_probes_and_lifecycle(
                    container,
                    self.spec.at("os"),
                    self.grace(),
                    &field_path,
                    errors,
                );
            } else {
                for field in SIDECAR_FIELDS.into_iter().filter(|field| container.has(field)) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&field_path.child(field), detail);
                }
            }
            restart::validate_init_resize_policy(container, self.options, &field_path, errors);
        }
    }

    // upstream: pkg/apis/core/validation/validation.go validateEphemeralContainers
    pub(super) fn validate_ephemeral_containers(&self, at: &Path<'_>, errors: &mut ErrorList) {
        const DETAIL: &str = "cannot be set for an Ephemeral Container";
        let containers = self.spec.items("ephemeralContainers");
        let repeated =
            field_checks::duplicate_flags(containers.iter().map(|container| container.text("name")));
        let permanent: HashSet<_> = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| self.spec.items(list))
            .map(|other| other.text("name"))
            .collect();
        for (index, container) in containers.iter().enumerate() {
            let field_path = at.index(index);
            self.validate(container, &field_path, errors);
            validate_image(container, &field_path, errors);
            let name = container.text("name");
            let target = container.text("targetContainerName");
            if permanent.contains(name) || repeated[index] {
                errors.duplicate(&field_path.child("name"), name);
            }
            if !target.is_empty() && !permanent.contains(target) {
                errors.push(Error::not_found(&field_path.child("targetContainerName"), target));
            }
            for field in FORBIDDEN_FOR_EPHEMERAL {
                let value = container.at(field);
                let set = value.as_object().map_or(!value.is_null(), |fields| {
                    field != "resources" || !fields.is_empty()
                });
                if set {
                    errors.forbidden(&field_path.child(field), DETAIL);
                }
            }
            let mounts_at = field_path.child("volumeMounts");
            for (number, mount) in container.items("volumeMounts").iter().enumerate() {
                for field in ["subPath", "subPathExpr"] {
                    if !mount.text(field).is_empty() {
                        errors.forbidden(&mounts_at.index(number).child(field), DETAIL);
                    }
                }
            }
        }
    }

    /// Validates what all containers have in common.
    fn validate(&self, container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
        match container.text("name") {
            "" => errors.required(&at.child("name"), ""),
            name => errors.push_invalid(&at.child("name"), name, validate_dns1123_label(name)),
        }
        if container.text("image").is_empty() {
            errors.required(&at.child("image"), "");
        }
        let policy = container.text("terminationMessagePolicy");
        errors.required_enum(&at.child("terminationMessagePolicy"), policy, &MESSAGE_POLICIES);
        validate_container_ports(container.items("ports"), &at.child("ports"), errors);
        env::validate_env(container.items("env"), &at.child("env"), errors);
        env::validate_env_from(container.items("envFrom"), &at.child("envFrom"), errors);
        mount::validate_volume_mounts(container, self.volumes, &at.child("volumeMounts"), errors);
        mount::validate_volume_devices(container, self.volumes, &at.child("volumeDevices"), errors);
        let policy = container.text("imagePullPolicy");
        errors.required_enum(&at.child("imagePullPolicy"), policy, &PULL_POLICIES);
        resources::validate_requirements(
            container.at("resources"),
            ResourceOwner::Container,
            self.claims,
            self.options.pages,
            &at.child("resources"),
            errors,
        );
        let restart = self.spec.text("restartPolicy");
        restart::validate_resize_policy(container, restart, &at.child("resizePolicy"), errors);
        security::validate_security_context(
            container,
            self.spec,
            self.options,
            &at.child("securityContext"),
            errors,
        );
    }
}

/// Validates the image of a container in a pod; templates may leave it out.
// upstream: pkg/apis/core/validation/validation.go validateContainerOnlyForPod
pub(super) fn validate_image(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        errors.invalid(
            &at.child("image"),
            image,
            "must not have leading or trailing whitespace",
        );
    }
}

// upstream: pkg/apis/core/validation/validation.go validateContainerPorts
fn validate_container_ports(ports: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut names: HashSet<&str> = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field_path = at.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let msgs = validate_port_name(name);
            if !msgs.is_empty() {
                errors.push_invalid(&field_path.child("name"), name, msgs);
            } else if !names.insert(name) {
                errors.duplicate(&field_path.child("name"), name);
            }
        }
        let mut number = |field: &str, needed: bool| match port.int_or_zero(field) {
            0 if needed => errors.required(&field_path.child(field), ""),
            0 => {}
            number => {
                for msg in validate_port_number(number) {
                    errors.invalid(&field_path.child(field), number, msg);
                }
            }
        };
        number("containerPort", true);
        number("hostPort", false);
        errors.required_enum(&field_path.child("protocol"), port.text("protocol"), &PROTOCOLS);
    }
}

/// A host port can be used once.
// upstream: pkg/apis/core/validation/validation.go checkHostPortConflicts, AccumulateUniqueHostPorts
fn check_host_port_conflicts(containers: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut used: HashSet<(&str, &str, i64)> = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (number, port) in container.items("ports").iter().enumerate() {
            let Some(host) = port.int("hostPort").filter(|host| *host != 0) else {
                continue;
            };
            let key = (port.text("protocol"), port.text("hostIP"), host);
            if !used.insert(key) {
                let item_at = at.index(index);
                let list_at = item_at.child("ports");
                let field_path = list_at.index(number);
                let text = format!("{}/{}/{}", key.0, key.1, key.2);
                errors.duplicate(&field_path.child("hostPort"), &text);
            }
        }
    }
}
