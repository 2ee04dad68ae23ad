//! CSIDriver: how the cluster uses the volumes of a CSI driver.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

const TOKEN_IN_SECRETS_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

pub(super) struct CsiDriver;

// upstream: pkg/registry/storage/csidriver/strategy.go csiDriverStrategy
impl RestStrategy for CsiDriver {
    // upstream: pkg/apis/storage/v1/defaults.go SetDefaults_CSIDriver
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        spec.set_default("attachRequired", true);
        spec.set_default("podInfoOnMount", false);
        spec.set_default("storageCapacity", false);
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.items("volumeLifecycleModes").is_empty() {
            spec.set("volumeLifecycleModes", json!(["Persistent"]));
        }
        spec.set_default("requiresRepublish", false);
        spec.set_default("seLinuxMount", false);
        spec.set_default("preventPodSchedulingIfMissing", false);
    }

    // upstream: pkg/registry/storage/csidriver/strategy.go PrepareForUpdate; the generation starts at 0 and only updates raise it
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        if new.at("spec") != old.at("spec") {
            let generation = old.at("metadata").int_or_zero("generation") + 1;
            new.ensure_object("metadata").set("generation", generation);
        }
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateCSIDriver
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_csi_driver_spec(object.at("spec"), errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateCSIDriverUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let new = new.at("spec");
        let old = old.at("spec");
        validate_csi_driver_spec(new, errors);
        let at = Path::new("spec");
        let required = "attachRequired";
        let field_path = at.child("attachedRequired");
        field_checks::validate_immutable_field(new.at(required), old.at(required), &field_path, errors);
        let modes = "volumeLifecycleModes";
        field_checks::validate_immutable_field(new.at(modes), old.at(modes), &at.child(modes), errors);
    }

    // upstream: pkg/registry/storage/csidriver/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = "tokenRequests";
        let spec = new.at("spec");
        let is_new = old.is_none_or(|old| old.at("spec").at(requests) != spec.at(requests));
        if is_new && !spec.items(requests).is_empty() && !spec.has("serviceAccountTokenInSecrets") {
            return vec![TOKEN_IN_SECRETS_WARNING.to_owned()];
        }
        Vec::new()
    }

    // upstream: pkg/registry/storage/csidriver/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::new(
                "AttachRequired",
                "boolean",
                ColumnDescription::Field("spec.attachRequired"),
            ),
            Column::new(
                "PodInfoOnMount",
                "boolean",
                ColumnDescription::Field("spec.podInfoOnMount"),
            ),
            Column::new(
                "StorageCapacity",
                "boolean",
                ColumnDescription::Field("spec.storageCapacity"),
            ),
            Column::field("TokenRequests", "spec.tokenRequests"),
            Column::new(
                "RequiresRepublish",
                "boolean",
                ColumnDescription::Field("spec.requiresRepublish"),
            ),
            Column::field("Modes", "spec.volumeLifecycleModes"),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printCSIDriver
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let tokens = if spec.has("tokenRequests") {
            let audiences: Vec<_> = spec
                .items("tokenRequests")
                .iter()
                .map(|request| request.text("audience"))
                .collect();
            audiences.join(",")
        } else {
            "<unset>".to_owned()
        };
        let mut modes = spec.texts("volumeLifecycleModes").collect::<Vec<_>>().join(",");
        if modes.is_empty() {
            "<none>".clone_into(&mut modes);
        }
        named_row(
            object,
            now,
            [
                json!(spec.at("attachRequired").as_bool().unwrap_or(true)),
                json!(spec.flag("podInfoOnMount")),
                json!(spec.flag("storageCapacity")),
                json!(tokens),
                json!(spec.flag("requiresRepublish")),
                json!(modes),
            ],
        )
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateCSIDriverSpec; the misspelt path spec.attachedRequired is upstream's
fn validate_csi_driver_spec(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    if spec.has("fsGroupPolicy") {
        field_checks::validate_supported(
            spec.text("fsGroupPolicy"),
            &["File", "None", "ReadWriteOnceWithFSType"],
            &at.child("fsGroupPolicy"),
            errors,
        );
    }
    validate_token_requests(spec.items("tokenRequests"), &at.child("tokenRequests"), errors);
    for mode in spec.texts("volumeLifecycleModes") {
        let field_path = at.child("volumeLifecycleModes");
        field_checks::validate_supported(mode, &["Persistent", "Ephemeral"], &field_path, errors);
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = spec.int(period).filter(|seconds| *seconds < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(Error::invalid(&at.child(period), seconds, detail));
    }
    let secrets = "serviceAccountTokenInSecrets";
    if spec.has(secrets) && spec.items("tokenRequests").is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(Error::invalid(&at.child(secrets), spec.at(secrets), detail));
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateTokenRequests
fn validate_token_requests(requests: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let repeated = field_checks::duplicate_flags(requests.iter().map(|request| request.text("audience")));
    for (index, request) in requests.iter().enumerate() {
        let field_path = at.index(index);
        let audience = request.text("audience");
        if repeated[index] {
            errors.push(Error::duplicate(&field_path.child("audience"), audience));
            continue;
        }
        let field_path = field_path.child("expirationSeconds");
        let detail = match request.int("expirationSeconds") {
            Some(seconds) if seconds < 10 * 60 => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errors.push(Error::invalid(
            &field_path,
            request.at("expirationSeconds"),
            detail,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_shows_audiences_and_modes() {
        let mut driver =
            json!({"metadata": {"name": "d", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}});
        CsiDriver.set_defaults(&mut driver);
        let now = Time::parse("2026-01-01T00:00:30Z").unwrap();
        let cells = |driver: &Value| Value::Array(CsiDriver.row(driver, now).cells);
        assert_eq!(
            cells(&driver),
            json!(["d", true, false, false, "<unset>", false, "Persistent", "30s"])
        );
        driver
            .ensure_object("spec")
            .set("tokenRequests", json!([{"audience": "a"}, {"audience": "b"}]));
        assert_eq!(cells(&driver)[4], "a,b");
        assert_eq!(CsiDriver.warnings(&driver, None).len(), 1);
        assert_eq!(CsiDriver.columns().len(), 8);
    }
}
