//! What holds for definitions of the size that operators bring, and for their objects.

#![expect(
    clippy::needless_pass_by_value,
    reason = "claims read better without ampersands"
)]

use k3_api::strategy::Tree;
use serde_json::{Value, json};

use crate::{
    operators::{all, certificate, database, route, workflow},
    server::Server,
};

fn installed(crd: &Value) -> Server {
    let mut server = Server::default();
    server
        .define(crd)
        .unwrap_or_else(|status| panic!("{}", status.message));
    server
}

#[test]
fn definitions_as_large_as_those_of_operators_install() {
    for crd in all() {
        let size = crd.at("spec").items("versions")[1].at("schema").to_string().len();
        assert!(size > 80 << 10, "{}: {size}", crd.at("metadata").text("name"));
        let server = installed(&crd);
        assert_eq!(server.definition().versions.len(), 2);
        assert_eq!(server.definition().storage().name, "v1");
        assert_eq!(k3_api::custom::non_structural_schema_message(&crd), None);
    }
}

#[test]
fn their_schemas_are_published_in_both_forms() {
    for crd in all() {
        let server = installed(&crd);
        for version in ["v1beta1", "v1"] {
            let v3 = k3_api::custom::published::v3(server.crd(), version).unwrap();
            let v2 = k3_api::custom::published::v2(server.crd(), version).unwrap();
            let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
            assert_eq!(
                v3.object.1.at_path("properties.metadata.allOf")[0].text("$ref"),
                metadata
            );
            assert!(
                v3.object
                    .1
                    .at_path("properties.spec.properties")
                    .as_object()
                    .unwrap()
                    .len()
                    >= 3
            );
            assert!(v2.object.1.to_string().len() <= v3.object.1.to_string().len());
            assert_eq!(v2.object.0, v3.object.0);
        }
    }
}

fn create(crd: &Value, spec: Value) -> Result<Value, String> {
    let mut server = installed(crd);
    let group = crd.at("spec").text("group");
    let kind = crd.at("spec").at("names").text("kind");
    let object =
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    server
        .create("v1", &object)
        .map(|(object, _)| object.at("spec").clone())
        .map_err(|status| status.message)
}

#[test]
fn objects_get_their_defaults_and_are_judged() {
    let certificate = certificate();
    let good = create(
        &certificate,
        json!({"secretName": "s", "commonName": "c", "issuerRef": {"name": "i"}}),
    )
    .unwrap();
    assert_eq!(
        good,
        json!({"secretName": "s", "commonName": "c", "issuerRef": {"name": "i", "kind": "Issuer"}, "revisionHistoryLimit": 1,
            "privateKey": {"algorithm": "RSA"}})
    );
    let bad = json!({"secretName": "", "commonName": "c", "issuerRef": {"name": "i"}, "uris": ["not a uri"], "usages": ["flying"]});
    let messages = create(&certificate, bad).unwrap_err();
    for part in [
        "spec.secretName in body should be at least 1 chars long",
        "spec.uris[0] in body must be of type uri",
        "Unsupported value: \"flying\"",
    ] {
        assert!(messages.contains(part), "{messages}");
    }
    let route = create(
        &route(),
        json!({"rules": [{"backendRefs": [{"name": "b", "port": 80}]}]}),
    )
    .unwrap();
    let rule = &route.items("rules")[0];
    assert_eq!(
        rule.items("matches"),
        [json!({"path": {"type": "PathPrefix", "value": "/"}})]
    );
    assert_eq!(
        rule.items("backendRefs"),
        [json!({"name": "b", "port": 80, "group": "", "kind": "Service", "weight": 1})]
    );
    let messages = create(
        &database(),
        json!({"storage": {"size": "10Gi"}, "backup": {"target": {"s3": {}, "gcs": {}}}}),
    )
    .unwrap_err();
    assert!(
        messages.contains("\"spec.backup.target\" must validate one and only one schema (oneOf)"),
        "{messages}"
    );
    let messages = create(&database(), json!({"storage": {"size": "ten"}})).unwrap_err();
    assert!(
        messages.contains("spec.storage.size in body should match"),
        "{messages}"
    );
}

#[test]
fn a_template_inside_is_judged_like_the_rest() {
    let template = json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}], "env": [{"name": "E"}, {"name": "E"}]}],
        "unknown": 1}});
    let messages = create(
        &workflow(),
        json!({"steps": [{"name": "s", "template": template}]}),
    )
    .unwrap_err();
    assert!(
        messages.contains("spec.steps[0].template.spec.containers[0].env[1]: Duplicate value"),
        "{messages}"
    );
}

/// Two rules of the newer version: one that holds for objects, one that holds for changes.
#[test]
fn rules_are_asked_of_objects_and_of_changes() {
    let crd = certificate();
    let messages = create(&crd, json!({"secretName": "s", "issuerRef": {"name": "i"}})).unwrap_err();
    assert!(
        messages.ends_with("spec: Invalid value: a certificate needs a name"),
        "{messages}"
    );
    let mut server = installed(&crd);
    let object = json!({"apiVersion": "cert.example.com/v1", "kind": "Certificate", "metadata": {"name": "x"},
        "spec": {"secretName": "s", "commonName": "c", "issuerRef": {"name": "i"}}});
    server.create("v1", &object).unwrap();
    let change = json!({"spec": {"issuerRef": {"name": "j"}}});
    let messages = server.patch("v1", "x", "", change.clone()).unwrap_err().message;
    assert!(
        messages.ends_with("spec.issuerRef.name: Invalid value: issuerRef is immutable"),
        "{messages}"
    );
    // The older version knows no such rule.
    server
        .patch(
            "v1beta1",
            "x",
            "",
            json!({"apiVersion": "cert.example.com/v1beta1", "spec": change.at("spec")}),
        )
        .unwrap();
}
