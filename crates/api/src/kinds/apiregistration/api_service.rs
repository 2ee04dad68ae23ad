//! APIService: which server serves a group and version.

use serde_json::{Value, json};

use crate::{
    base64,
    field::{Error, Path},
    go,
    kinds::field_checks,
    name::{self, NameFormat},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Service",
        "The reference to the service that hosts this API endpoint.",
    ),
    Column::text("Available", "Whether this service is available."),
    Column::age(),
];

pub(super) struct ApiService;

// upstream: staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go apiServerStrategy
impl RestStrategy for ApiService {
    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn set_defaults(&self, object: &mut Value) {
        let service = object.at_mut("spec").and_then(|spec| spec.at_mut("service"));
        if let Some(service) = service {
            service.set_default("port", 443);
        }
    }

    /// A local APIService is available at once.
    // upstream: staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        let status = if object.at("spec").has("service") {
            json!({})
        } else {
            json!({"conditions": [{
                "type": "Available",
                "status": "True",
                "lastTransitionTime": at.now.to_string(),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }]})
        };
        object.set("status", status);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        let metadata = new.ensure_object("metadata");
        for name in ["labels", "annotations", "finalizers", "ownerReferences"] {
            metadata.copy_from(name, old.at("metadata"));
        }
    }

    // upstream: staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go ValidateAPIService
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        validate_name(object.at("metadata"), spec, errors);
        let at = Path::new("spec");
        validate_group_version(spec, &at, errors);
        for (field, max) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
            let priority = spec.int_or_zero(field);
            if !(1..=max).contains(&priority) {
                let detail = format!("must be positive and less than {max}");
                errors.push(Error::invalid(&at.child(field), priority, detail));
            }
        }
        validate_service(spec, &at, errors);
    }

    // upstream: staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go ValidateAPIServiceStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = Path::new("status");
        let at = status.child("conditions");
        for (index, condition) in new.at("status").items("conditions").iter().enumerate() {
            let text = condition.text("status");
            let known = ["True", "False", "Unknown"];
            if !known.contains(&text) {
                errors.push(Error::not_supported(
                    &at.index(index).child("status"),
                    text,
                    known,
                ));
            }
        }
    }

    // upstream: staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let service = match object.at("spec").at("service") {
            Value::Null => "Local".to_owned(),
            service => format!("{}/{}", service.text("namespace"), service.text("name")),
        };
        let conditions = object.at("status").items("conditions");
        let available = conditions.iter().find(|one| one.text("type") == "Available");
        let available = match available.map(|one| (one.text("status"), one.text("reason"))) {
            None => "Unknown".to_owned(),
            Some((status @ "True", _) | (status, "")) => status.to_owned(),
            Some((status, reason)) => format!("{status} ({reason})"),
        };
        named_row(object, now, [json!(service), json!(available)])
    }
}

/// The name must be `<version>.<group>`.
fn validate_name(metadata: &Value, spec: &Value, errors: &mut ErrorList) {
    let expected = format!("{}.{}", spec.text("version"), spec.text("group"));
    let at = Path::new("metadata");
    for field in ["generateName", "name"] {
        let name = metadata.text(field);
        if !name.is_empty() && name != expected && name::validate_path_segment_name(name).is_empty() {
            let detail = format!(
                "must be `spec.version+\".\"+spec.group`: {}",
                go::quote(&expected)
            );
            errors.push(Error::invalid(&at.child(field), name, detail));
        }
    }
}

fn validate_group_version(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let group = spec.text("group");
    let version = spec.text("version");
    let field_path = at.child("group");
    if !group.is_empty() {
        field_checks::push_invalid(
            group,
            name::validate_dns1123_subdomain(group),
            &field_path,
            errors,
        );
    } else if version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required(&field_path, detail));
    }
    let field_path = at.child("version");
    field_checks::push_invalid(
        version,
        name::validate_dns1035_label(version),
        &field_path,
        errors,
    );
}

fn validate_service(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let bundle = base64::decode(spec.text("caBundle")).map_or(0, |bytes| bytes.len());
    let insecure = spec.flag("insecureSkipTLSVerify");
    let insecure_at = at.child("insecureSkipTLSVerify");
    if !spec.has("service") {
        if bundle > 0 {
            let detail = "local APIServices may not have a caBundle";
            let size = format!("{bundle} bytes");
            errors.push(Error::invalid(&at.child("caBundle"), size, detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&insecure_at, json!(true), detail));
        }
        return;
    }
    let service = spec.at("service");
    let field_path = at.child("service");
    for field in ["namespace", "name"] {
        if service.text(field).is_empty() {
            errors.push(Error::required(&field_path.child(field), ""));
        }
    }
    let port = service.int_or_zero("port");
    let msgs = name::validate_port_number(port);
    if !msgs.is_empty() {
        let detail = format!("port is not valid: {}", msgs.join(", "));
        errors.push(Error::invalid(&field_path.child("port"), port, detail));
    }
    if insecure && bundle > 0 {
        let detail = "may not be true if caBundle is present";
        errors.push(Error::invalid(&insecure_at, json!(true), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kinds::builtin,
        strategy::{User, create},
    };

    fn create_api_service(spec: &Value) -> Result<Value, String> {
        let mut object = json!({"metadata": {"name": "v1.a.b"}, "spec": spec});
        let user = User::default();
        let at = StrategyContext {
            kind: builtin()
                .kind("apiregistration.k8s.io", "v1", "APIService")
                .unwrap(),
            now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
            user: &user,
        };
        ApiService.set_defaults(&mut object);
        match create(&mut object, &at) {
            Ok(_) => Ok(object),
            Err(status) => Err(status.to_json()),
        }
    }

    #[test]
    fn local_api_service_is_available_at_once() {
        let spec = json!({"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
        let local = create_api_service(&spec).unwrap();
        assert_eq!(local["status"]["conditions"][0]["reason"], "Local");
        let now = Time::parse("2026-01-02T03:04:05Z").unwrap();
        assert_eq!(
            ApiService.row(&local, now).cells[1..3],
            [json!("Local"), json!("True")]
        );
        let mut spec = spec;
        spec["service"] = json!({"namespace": "n", "name": "s"});
        let remote = create_api_service(&spec).unwrap();
        assert_eq!(
            (&remote["spec"]["service"]["port"], &remote["status"]),
            (&json!(443), &json!({}))
        );
        assert_eq!(
            ApiService.row(&remote, now).cells[1..3],
            [json!("n/s"), json!("Unknown")]
        );
    }

    #[test]
    fn rejects_a_name_other_than_version_and_group() {
        let spec = json!({"group": "a.c", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
        let status = create_api_service(&spec).unwrap_err();
        assert!(
            status.contains(r#"must be `spec.version+\".\"+spec.group`: \"v1.a.c\""#),
            "{status}"
        );
    }
}
