//! Volume mounts and volume devices of containers.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    env::{validate_local_descending_path, validate_path_no_backsteps},
    error_list::ErrorListExt,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const READ_ONLY: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];
const BIND_OPTIONS: [&str; 3] = ["nodev", "noexec", "nosuid"];

/// The valid volumes by name.
pub(super) type VolumesByName<'v> = HashMap<&'v str, &'v Value>;

fn field_values<'v>(items: &'v [Value], field: &'static str) -> HashSet<&'v str> {
    items.iter().map(|item| item.text(field)).collect()
}

/// Validates the mounts of a container; `volumes` are those that can be mounted.
// upstream: pkg/apis/core/validation/validation.go ValidateVolumeMounts
pub(super) fn validate_volume_mounts(
    container: &Value,
    volumes: &VolumesByName<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mounts = container.items("volumeMounts");
    let devices = container.items("volumeDevices");
    let device_names = field_values(devices, "name");
    let device_paths = field_values(devices, "devicePath");
    let repeated = field_checks::duplicate_flags(mounts.iter().map(|mount| mount.text("mountPath")));
    for (index, mount) in mounts.iter().enumerate() {
        let field_path = at.index(index);
        let name = mount.text("name");
        let path = mount.text("mountPath");
        let name_at = field_path.child("name");
        let path_at = field_path.child("mountPath");
        if name.is_empty() {
            errors.required(&name_at, "");
        }
        let volume = volumes.get(name).copied();
        if volume.is_none() {
            errors.push(Error::not_found(&name_at, name));
        }
        if path.is_empty() {
            errors.required(&path_at, "");
        }
        if repeated[index] {
            errors.invalid(&path_at, path, "must be unique");
        }
        if device_names.contains(name) {
            errors.invalid(&name_at, name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            errors.invalid(
                &path_at,
                path,
                "must not already exist as a path in volumeDevices",
            );
        }
        let below = mount.text("subPath");
        let expression = mount.text("subPathExpr");
        if !below.is_empty() {
            validate_local_descending_path(below, &at.child("subPath"), errors);
        }
        if !expression.is_empty() {
            if !below.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(&field_path.child("subPathExpr"), expression, detail);
            }
            validate_local_descending_path(expression, &at.child("subPathExpr"), errors);
        }
        if mount.has("mountPropagation") {
            validate_mount_propagation(mount, container, &at.child("mountPropagation"), errors);
        }
        if mount.has("recursiveReadOnly") {
            validate_recursive_read_only(mount, &at.child("recursiveReadOnly"), errors);
        }
        validate_bind_mount_options(mount, volume, &field_path.child("bindMountOptions"), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateMountPropagation
fn validate_mount_propagation(mount: &Value, container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mode = mount.text("mountPropagation");
    if !PROPAGATIONS.contains(&mode) {
        errors.unsupported(at, mode, &PROPAGATIONS);
    }
    if mode == "Bidirectional" && !container.at("securityContext").flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(at, detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateMountRecursiveReadOnly
fn validate_recursive_read_only(mount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match mount.text("recursiveReadOnly") {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if mount.has("mountPropagation") && mount.text("mountPropagation") != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(at, detail);
            }
        }
        mode => errors.unsupported(at, mode, &READ_ONLY),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateBindMountOptions
fn validate_bind_mount_options(mount: &Value, volume: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    let options = mount.items("bindMountOptions");
    let repeated = field_checks::duplicate_flags(options);
    for (index, option) in mount.texts("bindMountOptions").enumerate() {
        if !BIND_OPTIONS.contains(&option) {
            errors.unsupported(&at.index(index), option, &BIND_OPTIONS);
        }
        if repeated[index] {
            errors.duplicate(&at.index(index), option);
        }
    }
    if !options.is_empty() && volume.is_some_and(|volume| volume.has("image")) {
        let detail = "bindMountOptions may not be used with image volumes";
        errors.invalid(at, mount.at("bindMountOptions"), detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateVolumeDevices
pub(super) fn validate_volume_devices(
    container: &Value,
    volumes: &VolumesByName<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mounts = container.items("volumeMounts");
    let mount_names = field_values(mounts, "name");
    let mount_paths = field_values(mounts, "mountPath");
    let mut paths: HashSet<&str> = HashSet::new();
    let mut names: HashSet<&str> = HashSet::new();
    for (index, device) in container.items("volumeDevices").iter().enumerate() {
        let field_path = at.index(index);
        let name = device.text("name");
        let path = device.text("devicePath");
        let name_at = field_path.child("name");
        let path_at = field_path.child("devicePath");
        if name.is_empty() {
            errors.required(&name_at, "");
        }
        if names.contains(name) {
            errors.invalid(&name_at, name, "must be unique");
        }
        match volumes.get(name) {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_at, name, detail);
            }
            Some(_) => {}
            None => errors.push(Error::not_found(&name_at, name)),
        }
        if path.is_empty() {
            errors.required(&path_at, "");
        }
        if paths.contains(path) {
            errors.invalid(&path_at, path, "must be unique");
        }
        let mut steps = ErrorList::new();
        validate_path_no_backsteps(path, &path_at, &mut steps);
        if steps.is_empty() {
            paths.insert(path);
        } else {
            errors.invalid(&path_at, path, "can not contain backsteps ('..')");
        }
        if mount_names.contains(name) {
            errors.invalid(&name_at, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            errors.invalid(&path_at, path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
