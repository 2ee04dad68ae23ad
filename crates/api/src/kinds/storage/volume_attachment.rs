//! VolumeAttachment: the request to attach a volume to a node, and its state.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::{
        core::{
            persistent_volume::{VolumeSpecHolder, default_sources, validate_volume_spec},
            volume::source::validate_csi_driver_name,
        },
        field_checks, status_meta,
    },
    name::NameFormat,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;
const MAX_ATTACHER_LENGTH: usize = 63;

pub(super) struct VolumeAttachment;

// upstream: pkg/registry/storage/volumeattachment/strategy.go volumeAttachmentStrategy
impl RestStrategy for VolumeAttachment {
    fn set_defaults(&self, object: &mut Value) {
        let spec = object
            .at_mut("spec")
            .and_then(|spec| spec.at_mut("source"))
            .and_then(|source| source.at_mut("inlineVolumeSpec"));
        if let Some(spec) = spec {
            default_sources(spec);
        }
    }

    // upstream: pkg/registry/storage/volumeattachment/strategy.go volumeAttachmentStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateVolumeAttachment
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_volume_attachment(object, errors);
        validate_attacher(object.at("spec"), errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateVolumeAttachmentUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let at = Path::new("spec");
        let spec = new.at("spec");
        let before = old.at("spec");
        if spec != before {
            validate_csi_driver_name(spec.text("attacher"), &at.child("attacher"), errors);
        }
        validate_volume_attachment(new, errors);
        field_checks::validate_immutable_hiding_value(spec, before, &at, errors);
    }

    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_update(new, old, at, errors);
    }

    // upstream: pkg/registry/storage/volumeattachment/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::names("Attacher", "spec.attacher"),
            Column::field("PV", "spec.source.persistentVolumeName"),
            Column::field("Node", "spec.nodeName"),
            Column::new("Attached", "boolean", ColumnDescription::Field("status.attached")),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printVolumeAttachment
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        named_row(
            object,
            now,
            [
                json!(spec.text("attacher")),
                json!(spec.at("source").text("persistentVolumeName")),
                json!(spec.text("nodeName")),
                json!(object.at("status").flag("attached")),
            ],
        )
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateVolumeAttachmentSpec, validateVolumeAttachmentSource
fn validate_volume_attachment(object: &Value, errors: &mut ErrorList) {
    let spec = object.at("spec");
    let at = Path::new("spec");
    let source = spec.at("source");
    let field_path = at.child("source");
    let volume = source.at("persistentVolumeName").as_str();
    match (volume, source.has("inlineVolumeSpec")) {
        (None, false) => {
            let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(Error::required(&field_path, detail));
        }
        (Some(_), true) => {
            let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(Error::forbidden(&field_path, detail));
        }
        (Some(""), false) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.push(Error::required(&field_path.child("persistentVolumeName"), detail));
        }
        (Some(_), false) => {}
        (None, true) => validate_volume_spec(
            source.at("inlineVolumeSpec"),
            VolumeSpecHolder::Inline,
            &field_path.child("inlineVolumeSpec"),
            errors,
        ),
    }
    let node = spec.text("nodeName");
    field_checks::push_invalid(
        node,
        NameFormat::Subdomain.name(node),
        &at.child("nodeName"),
        errors,
    );
    validate_volume_attachment_status(object.at("status"), errors);
    if let Some(volume) = volume {
        let field_path = field_path.child("persistentVolumeName");
        field_checks::push_invalid(volume, NameFormat::Subdomain.name(volume), &field_path, errors);
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateVolumeAttachmentStatus, validateVolumeError
fn validate_volume_attachment_status(status: &Value, errors: &mut ErrorList) {
    let at = Path::new("status");
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    let metadata = status.entries("attachmentMetadata");
    if metadata.iter().map(bytes).sum::<usize>() > MAX_METADATA_BYTES {
        errors.push(Error::too_long(
            &at.child("attachmentMetadata"),
            MAX_METADATA_BYTES,
        ));
    }
    for name in ["attachError", "detachError"] {
        let error = status.at(name);
        let field_path = at.child(name);
        if error.text("message").len() > MAX_MESSAGE_BYTES {
            errors.push(Error::too_long(&field_path.child("message"), MAX_MESSAGE_BYTES));
        }
        field_checks::validate_in_range(error, "errorCode", 0, i64::from(i32::MAX), &field_path, errors);
    }
}

// upstream: pkg/apis/storage/validation/validation.go ValidateVolumeAttachment
fn validate_attacher(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let field_path = at.child("attacher");
    let attacher = spec.text("attacher");
    if attacher.is_empty() {
        errors.push(Error::required(&field_path, ""));
        return;
    }
    field_checks::validate_dns1123_subdomain_caseless(attacher, &field_path, errors);
    if attacher.chars().count() > MAX_ATTACHER_LENGTH {
        errors.push(Error::too_long_characters(&field_path, MAX_ATTACHER_LENGTH));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_incomplete_attachments() {
        let mut errors = ErrorList::new();
        let object = json!({"spec": {"attacher": "A_", "nodeName": "n", "source": {"inlineVolumeSpec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "local": {"path": "/x"},
        }}}});
        validate_volume_attachment(&object, &mut errors);
        validate_attacher(object.at("spec"), &mut errors);
        let messages: Vec<_> = errors
            .iter()
            .map(|e| e.to_string().chars().take(100).collect::<String>())
            .collect();
        assert_eq!(
            messages,
            [
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volu",
                "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volum",
                "spec.source.inlineVolumeSpec.nodeAffinity: Required value: Local volume requires node affinity",
                "spec.attacher: Invalid value: \"A_\": an RFC 1123 subdomain must consist of alphanumeric characters, '",
            ]
        );
    }

    #[test]
    fn rejects_spec_changes_after_validation_errors() {
        let object = |attacher: &str| json!({"spec": {"attacher": attacher, "nodeName": "n", "source": {"persistentVolumeName": "p"}}});
        let user = crate::strategy::User::default();
        let at = StrategyContext {
            kind: crate::kinds::builtin()
                .kind("storage.k8s.io", "v1", "VolumeAttachment")
                .unwrap(),
            now: Time::from_unix(0, 0),
            user: &user,
        };
        let mut errors = ErrorList::new();
        VolumeAttachment.validate_update(&object("B_"), &object("a"), &at, &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 2);
        assert!(
            messages[0].starts_with("spec.attacher: Invalid value: \"B_\": a lowercase RFC 1123 subdomain")
        );
        assert_eq!(messages[1], "spec: Invalid value: null: field is immutable");
    }
}
