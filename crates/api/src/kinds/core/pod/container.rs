//! Containers: those that do the work, those that prepare it or run beside it, and those that look into a running pod.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    env, handler, mount,
    options::{Options, is_sidecar},
    report::Report,
    resources::{self, Holder},
    restart, security,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{dns1123_label, port_name, port_number},
    rules::{Errors, Tree},
};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What init containers may have only if they run beside the others.
const SIDECAR_FIELDS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// What containers that look into a pod may not have, in the order in which it is told.
const NOT_EPHEMERAL: [&str; 9] = [
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

/// The pod around a container.
pub(super) struct Pod<'p> {
    /// Its spec.
    pub(super) spec: &'p Value,
    /// Its volumes without faults.
    pub(super) volumes: &'p mount::Volumes<'p>,
    /// The names of its resource claims.
    pub(super) claims: &'p [&'p str],
    /// The rules that are relaxed for it.
    pub(super) options: &'p Options,
}

impl Pod<'_> {
    fn grace(&self) -> Option<i64> {
        self.spec.int("terminationGracePeriodSeconds")
    }

    /// What is wrong with the containers that do the work.
    pub(super) fn validate_containers(&self, at: &Path<'_>, errors: &mut Errors) {
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
            handler::validate(container, self.spec.at("os"), self.grace(), &field_path, errors);
            restart::validate(container, &field_path, errors);
        }
        host_ports(containers, at, errors);
    }

    /// What is wrong with the containers that run before, or beside, the others.
    pub(super) fn validate_init_containers(&self, at: &Path<'_>, errors: &mut Errors) {
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
            restart::validate_init(container, &field_path, errors);
            let name = container.text("name");
            // Without a name, only containers that do the work collide.
            if working.contains(name) || (!name.is_empty() && repeated[index]) {
                errors.duplicate(&field_path.child("name"), name);
            }
            // They run one by one, so each is judged alone, as if it were the first.
            host_ports(&containers[index..=index], at, errors);
            if is_sidecar(container) {
                handler::validate(container, self.spec.at("os"), self.grace(), &field_path, errors);
            } else {
                for field in SIDECAR_FIELDS.into_iter().filter(|field| container.has(field)) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&field_path.child(field), detail);
                }
            }
            restart::validate_init_resize(container, self.options, &field_path, errors);
        }
    }

    /// What is wrong with the containers that look into the pod.
    pub(super) fn validate_ephemeral_containers(&self, at: &Path<'_>, errors: &mut Errors) {
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
            for field in NOT_EPHEMERAL {
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

    /// What is wrong with a container, whatever it is for.
    fn validate(&self, container: &Value, at: &Path<'_>, errors: &mut Errors) {
        match container.text("name") {
            "" => errors.required(&at.child("name"), ""),
            name => errors.push_invalid(&at.child("name"), name, dns1123_label(name)),
        }
        if container.text("image").is_empty() {
            errors.required(&at.child("image"), "");
        }
        let policy = container.text("terminationMessagePolicy");
        errors.word(&at.child("terminationMessagePolicy"), policy, &MESSAGE_POLICIES);
        ports(container.items("ports"), &at.child("ports"), errors);
        env::validate(container.items("env"), &at.child("env"), errors);
        env::validate_from(container.items("envFrom"), &at.child("envFrom"), errors);
        mount::validate(container, self.volumes, &at.child("volumeMounts"), errors);
        mount::validate_devices(container, self.volumes, &at.child("volumeDevices"), errors);
        let policy = container.text("imagePullPolicy");
        errors.word(&at.child("imagePullPolicy"), policy, &PULL_POLICIES);
        resources::validate_requirements(
            container.at("resources"),
            Holder::Container,
            self.claims,
            self.options.pages,
            &at.child("resources"),
            errors,
        );
        let restart = self.spec.text("restartPolicy");
        restart::validate_resize(container, restart, &at.child("resizePolicy"), errors);
        security::validate_container(
            container,
            self.spec,
            self.options,
            &at.child("securityContext"),
            errors,
        );
    }
}

/// What is asked of the image of a container in a pod, but not in a template.
pub(super) fn validate_image(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        errors.invalid(
            &at.child("image"),
            image,
            "must not have leading or trailing whitespace",
        );
    }
}

fn ports(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut names: HashSet<&str> = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field_path = at.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let msgs = port_name(name);
            if !msgs.is_empty() {
                errors.push_invalid(&field_path.child("name"), name, msgs);
            } else if !names.insert(name) {
                errors.duplicate(&field_path.child("name"), name);
            }
        }
        let mut number = |field: &str, needed: bool| match port.int(field).unwrap_or_default() {
            0 if needed => errors.required(&field_path.child(field), ""),
            0 => {}
            number => {
                for msg in port_number(number) {
                    errors.invalid(&field_path.child(field), number, msg);
                }
            }
        };
        number("containerPort", true);
        number("hostPort", false);
        errors.word(&field_path.child("protocol"), port.text("protocol"), &PROTOCOLS);
    }
}

/// A port of the host can be taken once.
fn host_ports(containers: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut taken: HashSet<(&str, &str, i64)> = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (number, port) in container.items("ports").iter().enumerate() {
            let Some(host) = port.int("hostPort").filter(|host| *host != 0) else {
                continue;
            };
            let key = (port.text("protocol"), port.text("hostIP"), host);
            if !taken.insert(key) {
                let item_at = at.index(index);
                let list_at = item_at.child("ports");
                let field_path = list_at.index(number);
                let text = format!("{}/{}/{}", key.0, key.1, key.2);
                errors.duplicate(&field_path.child("hostPort"), &text);
            }
        }
    }
}
