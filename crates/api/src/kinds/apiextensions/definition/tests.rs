use super::*;
use crate::{
    kinds::builtin,
    rules::{Part, User, create, update},
};

fn circumstances(user: &User) -> Circumstances<'_> {
    Circumstances {
        kind: builtin()
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap(),
        now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
        user,
    }
}

/// A definition with these versions.
fn definition(versions: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "as.b.c", "resourceVersion": "1"},
        "spec": {
            "group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"}, "versions": versions,
        },
        "status": {},
    });
    CustomResourceDefinition.default(&mut object);
    object
}

fn version(name: &str, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn created(object: &mut Value) -> Vec<String> {
    let user = User::default();
    causes(create(object, &circumstances(&user)).err())
}

fn updated(new: &mut Value, old: &Value) -> Vec<String> {
    let user = User::default();
    causes(update(new, old, Part::Object, &circumstances(&user)).err())
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
fn names_conversion_and_stored_versions_are_filled_in() {
    let plain = json!({"type": "object"});
    let mut object = definition(&json!([
        version("v1", false, &plain),
        version("v2", true, &plain)
    ]));
    assert_eq!(created(&mut object), [] as [&str; 0]);
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
fn what_versions_share_is_told_at_the_place_beside_them() {
    let bad = json!({"type": "object", "properties": {"spec": {}}});
    let detail = "type: Required value: must not be empty for specified object fields";
    let mut one = definition(&json!([version("v1", true, &bad)]));
    assert_eq!(
        created(&mut one),
        [format!(
            "spec.validation.openAPIV3Schema.properties[spec].{detail}"
        )]
    );
    let mut two = definition(&json!([
        version("v1", true, &bad),
        version("v2", false, &json!({"type": "object"}))
    ]));
    assert_eq!(
        created(&mut two),
        [format!(
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].{detail}"
        )]
    );
}

#[test]
fn a_version_that_objects_are_stored_in_stays() {
    let plain = json!({"type": "object"});
    let mut old = definition(&json!([
        version("v1", true, &plain),
        version("v2", false, &plain)
    ]));
    created(&mut old);
    let mut new = definition(&json!([version("v2", true, &plain)]));
    let messages = updated(&mut new, &old);
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0]
            .starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn what_is_stored_by_cannot_change_and_once_served_neither_the_scope() {
    let plain = json!({"type": "object"});
    let mut old = definition(&json!([version("v1", true, &plain)]));
    created(&mut old);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    assert_eq!(updated(&mut new.clone(), &old), [] as [&str; 0]);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    new["spec"]["group"] = json!("b.d");
    assert_eq!(
        updated(&mut new, &old),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.group: Invalid value: \"b.d\": field is immutable",
        ]
    );
}

#[test]
fn an_object_whose_status_is_judged_apart_says_little_of_the_whole() {
    let schema = json!({"type": "object", "maxProperties": 3});
    let mut version = version("v1", true, &schema);
    version["subresources"] = json!({"status": {}});
    let mut object = definition(&json!([version]));
    let messages = created(&mut object);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with(
        "spec.validation.openAPIV3Schema: Invalid value: {\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,"
    ));
    assert!(messages[0].ends_with("at the root of the schema if the status subresource is enabled"));
}

#[test]
fn lists_say_how_their_items_are_told_apart() {
    let list = |more: &Value| {
        let mut list =
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
        for (name, value) in more.as_object().unwrap() {
            list.set(name, value.clone());
        }
        definition(&json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": {"l": list}})
        )]))
    };
    let good =
        json!({"items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
    assert_eq!(created(&mut list(&good)), [] as [&str; 0]);
    let field_path = "spec.validation.openAPIV3Schema.properties[l]";
    let optional = json!({"items": {"type": "object", "properties": {"k": {"type": "string"}}}});
    assert_eq!(
        created(&mut list(&optional)),
        [format!(
            "{field_path}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it \
             must have a default or be a required property"
        )]
    );
    let scalar = json!({"items": {"type": "string"}});
    assert_eq!(
        created(&mut list(&scalar)),
        [format!(
            "{field_path}.items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map"
        )]
    );
}

#[test]
fn lists_are_narrowed_by_single_values_outside_the_metadata() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}},
    }});
    let mut version = version("v1", true, &schema);
    version["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}, {"jsonPath": ".x"}]);
    let mut object = definition(&json!([version]));
    let messages = created(&mut object);
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
fn an_object_that_is_one_value_has_no_old_fields() {
    let object = |map_type: &str| {
        let field = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
        let whole = json!({"type": "object", "x-kubernetes-map-type": map_type, "properties": {"f": field}});
        definition(&json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": {"o": whole}})
        )]))
    };
    assert_eq!(created(&mut object("granular")), [] as [&str; 0]);
    let field_path = "spec.validation.openAPIV3Schema.properties[o]";
    assert_eq!(
        created(&mut object("atomic")),
        [format!(
            "{field_path}.properties[f].x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be \
             used on the uncorrelatable portion of the schema within {field_path}"
        )]
    );
}

#[test]
fn what_is_wrong_with_metadata_is_told_as_often_as_it_is_found() {
    let mut old = definition(&json!([version("v1", true, &json!({"type": "object"}))]));
    created(&mut old);
    let mut new = old.clone();
    new["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "A", "name": "a"}]);
    let messages = "metadata.ownerReferences[0].uid: Required value: must not be empty";
    assert_eq!(updated(&mut new, &old), [messages; 3]);
}

#[test]
fn a_constant_without_a_value_is_told_as_what_keeps_the_program_from_being_made() {
    let rule = json!({"rule": "self.find('(') == ''"});
    let message = json!({"rule": "self == ''", "messageExpression": "self.find('(')"});
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule, message]},
    }});
    let mut object = definition(&json!([version("v1", true, &schema)]));
    let messages = created(&mut object);
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
