use super::*;
use crate::{
    kinds::builtin,
    strategy::{User, WrittenPart, create, update},
};

fn circumstances(user: &User) -> StrategyContext<'_> {
    StrategyContext {
        kind: builtin()
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap(),
        now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
        user,
    }
}

/// A definition with these versions.
fn crd(versions: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "as.b.c", "resourceVersion": "1"},
        "spec": {
            "group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"}, "versions": versions,
        },
        "status": {},
    });
    CustomResourceDefinition.set_defaults(&mut object);
    object
}

fn version(name: &str, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn create_messages(object: &mut Value) -> Vec<String> {
    let user = User::default();
    causes(create(object, &circumstances(&user)).err())
}

fn update_messages(new: &mut Value, old: &Value) -> Vec<String> {
    let user = User::default();
    causes(update(new, old, WrittenPart::Object, &circumstances(&user)).err())
}

fn causes(status: Option<crate::status::Status>) -> Vec<String> {
    let Some(status) = status else {
        return Vec::new();
    };
    let status: Value = serde_json::from_str(&status.to_json()).unwrap();
    let causes = status.at("details").items("causes");
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.text("field"), cause.text("message")))
        .collect()
}

#[test]
fn defaults_names_conversion_and_stored_versions() {
    let plain = json!({"type": "object"});
    let mut object = crd(&json!([
        version("v1", false, &plain),
        version("v2", true, &plain)
    ]));
    assert_eq!(create_messages(&mut object), [] as [&str; 0]);
    assert_eq!(
        object["spec"]["names"],
        json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"})
    );
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(object["status"]["storedVersions"], json!(["v2"]));
    let row = CustomResourceDefinition.row(&object, Time::parse("2026-01-02T03:04:05Z").unwrap());
    assert_eq!(row.cells[2], "v1,v2(storage)");
}

#[test]
fn reports_shared_version_fields_at_the_top_level() {
    let bad = json!({"type": "object", "properties": {"spec": {}}});
    let detail = "type: Required value: must not be empty for specified object fields";
    let mut one = crd(&json!([version("v1", true, &bad)]));
    assert_eq!(
        create_messages(&mut one),
        [format!(
            "spec.validation.openAPIV3Schema.properties[spec].{detail}"
        )]
    );
    let mut two = crd(&json!([
        version("v1", true, &bad),
        version("v2", false, &json!({"type": "object"}))
    ]));
    assert_eq!(
        create_messages(&mut two),
        [format!(
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].{detail}"
        )]
    );
}

#[test]
fn rejects_removal_of_stored_versions() {
    let plain = json!({"type": "object"});
    let mut old = crd(&json!([
        version("v1", true, &plain),
        version("v2", false, &plain)
    ]));
    create_messages(&mut old);
    let mut new = crd(&json!([version("v2", true, &plain)]));
    let messages = update_messages(&mut new, &old);
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0]
            .starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn rejects_changes_of_group_plural_and_established_scope() {
    let plain = json!({"type": "object"});
    let mut old = crd(&json!([version("v1", true, &plain)]));
    create_messages(&mut old);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    assert_eq!(update_messages(&mut new.clone(), &old), [] as [&str; 0]);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    new["spec"]["group"] = json!("b.d");
    assert_eq!(
        update_messages(&mut new, &old),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.group: Invalid value: \"b.d\": field is immutable",
        ]
    );
}

#[test]
fn limits_root_schema_with_status_subresource() {
    let schema = json!({"type": "object", "maxProperties": 3});
    let mut version = version("v1", true, &schema);
    version["subresources"] = json!({"status": {}});
    let mut object = crd(&json!([version]));
    let messages = create_messages(&mut object);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with(
        "spec.validation.openAPIV3Schema: Invalid value: {\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,"
    ));
    assert!(messages[0].ends_with("at the root of the schema if the status subresource is enabled"));
}

#[test]
fn validates_list_types_and_map_keys() {
    let list = |more: &Value| {
        let mut list =
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
        for (name, value) in more.as_object().unwrap() {
            list.set(name, value.clone());
        }
        crd(&json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": {"l": list}})
        )]))
    };
    let good =
        json!({"items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
    assert_eq!(create_messages(&mut list(&good)), [] as [&str; 0]);
    let field_path = "spec.validation.openAPIV3Schema.properties[l]";
    let optional = json!({"items": {"type": "object", "properties": {"k": {"type": "string"}}}});
    assert_eq!(
        create_messages(&mut list(&optional)),
        [format!(
            "{field_path}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it \
             must have a default or be a required property"
        )]
    );
    let scalar = json!({"items": {"type": "string"}});
    assert_eq!(
        create_messages(&mut list(&scalar)),
        [format!(
            "{field_path}.items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map"
        )]
    );
}

#[test]
fn validates_selectable_fields() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}},
    }});
    let mut version = version("v1", true, &schema);
    version["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}, {"jsonPath": ".x"}]);
    let mut object = crd(&json!([version]));
    let messages = create_messages(&mut object);
    assert_eq!(
        messages[0],
        "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.a\""
    );
    assert!(
        messages[1].starts_with(
            "spec.selectableFields[2].jsonPath: Invalid value: \".spec.o\": must point to a field"
        )
    );
    assert_eq!(
        messages[2],
        "spec.selectableFields[3].jsonPath: Invalid value: \".x\": is an invalid path: does not refer to a valid field"
    );
}

#[test]
fn rejects_old_self_below_atomic_objects() {
    let object = |map_type: &str| {
        let field = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
        let whole = json!({"type": "object", "x-kubernetes-map-type": map_type, "properties": {"f": field}});
        crd(&json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": {"o": whole}})
        )]))
    };
    assert_eq!(create_messages(&mut object("granular")), [] as [&str; 0]);
    let field_path = "spec.validation.openAPIV3Schema.properties[o]";
    assert_eq!(
        create_messages(&mut object("atomic")),
        [format!(
            "{field_path}.properties[f].x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be \
             used on the uncorrelatable portion of the schema within {field_path}"
        )]
    );
}

#[test]
fn reports_metadata_errors_repeatedly() {
    let mut old = crd(&json!([version("v1", true, &json!({"type": "object"}))]));
    create_messages(&mut old);
    let mut new = old.clone();
    new["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "A", "name": "a"}]);
    let messages = "metadata.ownerReferences[0].uid: Required value: must not be empty";
    assert_eq!(update_messages(&mut new, &old), [messages; 3]);
}

#[test]
fn reports_constant_evaluation_errors() {
    let rule = json!({"rule": "self.find('(') == ''"});
    let message = json!({"rule": "self == ''", "messageExpression": "self.find('(')"});
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule, message]},
    }});
    let mut object = crd(&json!([version("v1", true, &schema)]));
    let messages = create_messages(&mut object);
    let msg = "instantiation failed: error parsing regexp: missing closing ): `(`";
    assert_eq!(messages.len(), 2);
    assert!(
        messages[0].ends_with(&format!(": program {msg}")),
        "{}",
        messages[0]
    );
    assert!(
        messages[1].ends_with(&format!(": messageExpression {msg}")),
        "{}",
        messages[1]
    );
}
