//! The manifests beside the examples are what their types say.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{fs, path::Path, process::Command};

use serde::de::DeserializeOwned;

/// The examples that have kinds, by name.
const EXAMPLES: [&str; 4] = ["at", "dummy", "redismigration", "workflow"];

fn manifest(example: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(example)
        .join("manifests")
        .join(file);
    fs::read_to_string(path).unwrap()
}

fn sample<K: DeserializeOwned + kube::Resource<DynamicType = ()>>(example: &str) -> K {
    let text = manifest(example, "sample.yaml");
    assert!(text.contains(&format!(
        "apiVersion: {}\nkind: {}\n",
        K::api_version(&()),
        K::kind(&())
    )));
    serde_saphyr::from_str(&text).unwrap()
}

/// After a change of a type: `cargo run -p NAME -- --print-crds > examples/NAME/manifests/crd.yaml`
#[test]
fn definitions_are_those_of_the_types() {
    let output = Command::new(env!("CARGO_BIN_EXE_hub"))
        .arg("--print-crds")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let kept: String = EXAMPLES.map(|example| manifest(example, "crd.yaml")).concat();
    assert!(
        printed == kept,
        "print the definitions again: see above this test"
    );
    for (example, document) in EXAMPLES.iter().zip(printed.split("---\n").skip(1)) {
        let definition: serde_json::Value = serde_saphyr::from_str(document).unwrap();
        assert_eq!(definition["kind"], "CustomResourceDefinition", "{example}");
    }
}

#[test]
fn samples_are_of_their_kinds() {
    at::schedule(&sample::<at::At>("at").spec.schedule).unwrap();
    assert_eq!(sample::<dummy::Dummy>("dummy").spec.transition_defer, 3);
    assert_eq!(
        sample::<redismigration::RedisMigration>("redismigration")
            .spec
            .dest,
        "tx-123"
    );
    workflow::Graph::new(&sample::<workflow::Workflow>("workflow").spec).unwrap();
}

#[test]
fn the_settings_of_the_sample_are_taken() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/hub.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hub"));
    let output = command
        .arg("--config")
        .arg(config)
        .arg("--kubeconfig=/nowhere/at/all")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("/nowhere/at/all") && !said.contains("hub.yaml"),
        "only the cluster is missing: {said}"
    );
}
