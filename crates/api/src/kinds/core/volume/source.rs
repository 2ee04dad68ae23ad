//! Validation of each volume source. Where pods and PersistentVolumes share a source, they share the function unless there are
//! two.

use serde_json::Value;

use super::files::{validate_local_descending_path, validate_path_no_backsteps};
pub(crate) use super::iscsi::validate_iscsi_persistent_volume_source;
use crate::{
    field::{Error, Path},
    kinds::{core::persistent_volume_claim, field_checks},
    name::{self, NameFormat},
    strategy::{ErrorList, Tree},
};

/// Validates a volume source.
pub(crate) type SourceValidator = fn(&Value, &Path<'_>, &mut ErrorList);

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";

const MAX_DRIVER_NAME_LENGTH: usize = 63;

// upstream: pkg/apis/core/validation/validation.go validateVolumeSource
pub(super) fn empty_dir(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if field_checks::quantity_or_zero(source.at("sizeLimit"))
        .sign()
        .is_lt()
    {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(Error::forbidden(&at.child("sizeLimit"), detail));
    }
    if let Some(mode) = source.int("mode").filter(|mode| !(0..=0o1777).contains(mode)) {
        let detail = "must be a number between 0 and 01777 (octal), both inclusive";
        errors.push(Error::invalid(&at.child("mode"), mode, detail));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateHostPathVolumeSource, validateHostPathType
pub(crate) fn host_path(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let path = source.text("path");
    if path.is_empty() {
        errors.push(Error::required(&at.child("path"), ""));
        return;
    }
    validate_path_no_backsteps(path, &at.child("path"), errors);
    if source.has("type") {
        field_checks::validate_supported(source.text("type"), &HOST_PATH_TYPES, &at.child("type"), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateGitRepoVolumeSource
pub(super) fn git_repo(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["repository"], at, errors);
    validate_local_descending_path(source.text("directory"), &at.child("directory"), errors);
}

// upstream: pkg/apis/core/validation/validation.go validateGCEPersistentDiskVolumeSource
pub(crate) fn gce_disk(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["pdName"], at, errors);
    partition(source, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateAWSElasticBlockStoreVolumeSource
pub(crate) fn aws_disk(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["volumeID"], at, errors);
    partition(source, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateGCEPersistentDiskVolumeSource; the message says 1 to 255, although 0 is valid
fn partition(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(number) = source.int("partition").filter(|n| !(0..=255).contains(n)) {
        for msg in name::validate_in_range(number, 1, 255) {
            errors.push(Error::invalid(&at.child("partition"), number, msg));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNFSVolumeSource
pub(crate) fn nfs(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["server", "path"], at, errors);
    let path = source.text("path");
    if !path.starts_with('/') {
        errors.push(Error::invalid(
            &at.child("path"),
            path,
            "must be an absolute path",
        ));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateGlusterfsVolumeSource
pub(super) fn glusterfs(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["endpoints", "path"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateGlusterfsPersistentVolumeSource
pub(crate) fn volume_glusterfs(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    glusterfs(source, at, errors);
    let field_path = at.child("endpointsNamespace");
    match source.at("endpointsNamespace").as_str() {
        None => {}
        Some("") => errors.push(Error::invalid(
            &field_path,
            "",
            "if the endpointnamespace is set, it must be a valid namespace name",
        )),
        Some(namespace) => field_checks::validate_dns1123_label(namespace, &field_path, errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateFlockerVolumeSource
pub(crate) fn flocker(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = source.text("datasetName");
    let uuid = source.text("datasetUUID");
    if name.is_empty() && uuid.is_empty() {
        let detail = "one of datasetName and datasetUUID is required";
        errors.push(Error::required(at, detail));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid(at, "resource", detail));
    }
    if name.contains('/') {
        let field_path = at.child("datasetName");
        errors.push(Error::invalid(&field_path, name, "must not contain '/'"));
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePersistentClaimVolumeSource
pub(super) fn claim(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["claimName"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateRBDVolumeSource, validateRBDPersistentVolumeSource
pub(crate) fn rbd(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    cephfs(source, at, errors);
    field_checks::require_fields(source, &["image"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateCephFSVolumeSource, validateCephFSPersistentVolumeSource
pub(crate) fn cephfs(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if source.items("monitors").is_empty() {
        errors.push(Error::required(&at.child("monitors"), ""));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateCinderVolumeSource
pub(super) fn cinder(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["volumeID"], at, errors);
    secret(source, &["name"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateCinderPersistentVolumeSource
pub(crate) fn volume_cinder(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["volumeID"], at, errors);
    secret(source, &["name", "namespace"], at, errors);
}

fn secret(source: &Value, parts: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if source.has("secretRef") {
        field_checks::require_fields(source.at("secretRef"), parts, &at.child("secretRef"), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateQuobyteVolumeSource
pub(crate) fn quobyte(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.push(Error::required(&at.child("registry"), REGISTRY));
    } else if source.text("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(Error::required(&at.child("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.push(Error::invalid(&at.child("registry"), registry, REGISTRY));
        }
    }
    field_checks::require_fields(source, &["volume"], at, errors);
}

/// `host:port` or `[host]:port`; both may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else {
        return false;
    };
    let inner = match host.strip_prefix('[') {
        Some(rest) => match rest.strip_suffix(']') {
            Some(inner) => inner,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !inner.contains(['[', ']']) && !port.contains(['[', ']'])
}

// upstream: pkg/apis/core/validation/validation.go validateFCVolumeSource
pub(crate) fn fibre_channel(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let targets = source.items("targetWWNs");
    let ids = source.items("wwids");
    let field_path = at.child("targetWWNs");
    if targets.is_empty() {
        if ids.is_empty() {
            let detail = "must specify either targetWWNs or wwids, but not both";
            errors.push(Error::required(&field_path, detail));
        }
        return;
    }
    if !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(Error::invalid(&field_path, source.at("targetWWNs"), detail));
    }
    if source.has("lun") {
        field_checks::validate_in_range(source, "lun", 0, 255, at, errors);
    } else {
        let detail = "lun is required if targetWWNs is specified";
        errors.push(Error::required(&at.child("lun"), detail));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateFlexVolumeSource, validateFlexPersistentVolumeSource
pub(crate) fn flex(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["driver"], at, errors);
    let field_path = at.child("options");
    for key in source.entries("options").keys() {
        let namespace = key.split('/').next().unwrap_or_default().to_lowercase();
        let is_reserved = |domain: &str| {
            namespace
                .strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if is_reserved("kubernetes.io") || is_reserved("k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid(&field_path.key(key), key, detail));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateAzureFile
pub(super) fn azure_file(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["secretName", "shareName"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateAzureFilePV
pub(crate) fn volume_azure_file(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    azure_file(source, at, errors);
    if source.has("secretNamespace") {
        field_checks::require_fields(source, &["secretNamespace"], at, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateAzureDisk
pub(crate) fn azure_disk(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["diskName", "diskURI"], at, errors);
    if source.has("cachingMode") {
        let modes = ["None", "ReadOnly", "ReadWrite"];
        field_checks::validate_supported(
            source.text("cachingMode"),
            &modes,
            &at.child("cachingMode"),
            errors,
        );
    }
    if !source.has("kind") {
        return;
    }
    let kind = source.text("kind");
    let kinds = ["Dedicated", "Managed", "Shared"];
    field_checks::validate_supported(kind, &kinds, &at.child("kind"), errors);
    let (prefix, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        )
    };
    let uri = source.text("diskURI");
    if !uri.starts_with(prefix) {
        errors.push(Error::not_supported(&at.child("diskURI"), uri, [form]));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateVsphereVolumeSource
pub(crate) fn vsphere(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["volumePath"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validatePhotonPersistentDiskVolumeSource
pub(crate) fn photon(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["pdID"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validatePortworxVolumeSource
pub(crate) fn portworx(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["volumeID"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateScaleIOVolumeSource, validateScaleIOPersistentVolumeSource
pub(crate) fn scale_io(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["gateway", "system", "volumeName"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateLocalVolumeSource
pub(crate) fn local(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match source.text("path") {
        "" => errors.push(Error::required(&at.child("path"), "")),
        path => validate_path_no_backsteps(path, &at.child("path"), errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateStorageOSVolumeSource
pub(super) fn storage_os(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    storage_os_volume(source, at, errors);
    secret(source, &["name"], at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateStorageOSPersistentVolumeSource
pub(crate) fn volume_storage_os(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    storage_os_volume(source, at, errors);
    secret(source, &["name", "namespace"], at, errors);
}

fn storage_os_volume(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match source.text("volumeName") {
        "" => errors.push(Error::required(&at.child("volumeName"), "")),
        name => field_checks::validate_dns1123_label(name, &at.child("volumeName"), errors),
    }
    match source.text("volumeNamespace") {
        "" => {}
        namespace => field_checks::validate_dns1123_label(namespace, &at.child("volumeNamespace"), errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateCSIDriverName
/// A CSI driver name: a DNS subdomain in any case, at most 63 characters.
pub(crate) fn validate_csi_driver_name(driver: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    if driver.len() > MAX_DRIVER_NAME_LENGTH {
        errors.push(Error::too_long(at, MAX_DRIVER_NAME_LENGTH));
    }
    let msgs = name::validate_dns1123_subdomain(&field_checks::to_lower(driver));
    field_checks::push_invalid(driver, msgs, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateCSIVolumeSource
pub(super) fn csi(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(source.text("driver"), &at.child("driver"), errors);
    let secret = source.at("nodePublishSecretRef");
    if secret.is_null() {
        return;
    }
    match secret.text("name") {
        "" => field_checks::require_fields(secret, &["name"], &at.child("nodePublishSecretRef"), errors),
        name => field_checks::push_invalid(name, NameFormat::Subdomain.name(name), &at.child("name"), errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateCSIPersistentVolumeSource
pub(crate) fn volume_csi(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(source.text("driver"), &at.child("driver"), errors);
    field_checks::require_fields(source, &["volumeHandle"], at, errors);
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.at(field);
        if secret.is_null() {
            continue;
        }
        let field_path = at.child(field);
        match secret.text("name") {
            "" => errors.push(Error::required(&field_path.child("name"), "")),
            name => field_checks::validate_dns1123_subdomain(name, &field_path.child("name"), errors),
        }
        match secret.text("namespace") {
            "" => errors.push(Error::required(&field_path.child("namespace"), "")),
            namespace => {
                field_checks::validate_dns1123_label(namespace, &field_path.child("namespace"), errors);
            }
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateEphemeralVolumeSource
pub(super) fn ephemeral(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("volumeClaimTemplate");
    match source.at("volumeClaimTemplate") {
        Value::Null => errors.push(Error::required(&field_path, "")),
        template => persistent_volume_claim::validate_claim_template(template, &field_path, errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateImageVolumeSource
pub(super) fn image(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["reference"], at, errors);
    let field_path = at.child("pullPolicy");
    match source.text("pullPolicy") {
        "" => errors.push(Error::required(&field_path, "")),
        policy => field_checks::validate_supported(
            policy,
            &["Always", "IfNotPresent", "Never"],
            &field_path,
            errors,
        ),
    }
}
