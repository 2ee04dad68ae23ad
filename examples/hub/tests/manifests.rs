//! The manifests of the examples must match their types.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{fs, path::Path, process::Command};

use serde::de::DeserializeOwned;

/// The examples with custom resources, sorted by name.
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

/// To update a CRD: `cargo run -p NAME -- --print-crds > examples/NAME/manifests/crd.yaml`
#[test]
fn crds_match_types() {
    let output = Command::new(env!("CARGO_BIN_EXE_hub"))
        .arg("--print-crds")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let stored: String = EXAMPLES.map(|example| manifest(example, "crd.yaml")).concat();
    assert!(
        printed == stored,
        "the CRD manifests are outdated: see the comment above this test"
    );
    for (example, document) in EXAMPLES.iter().zip(printed.split("---\n").skip(1)) {
        let definition: serde_json::Value = serde_saphyr::from_str(document).unwrap();
        assert_eq!(definition["kind"], "CustomResourceDefinition", "{example}");
    }
}

#[test]
fn samples_can_be_parsed() {
    at::parse_schedule(&sample::<at::At>("at").spec.schedule).unwrap();
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
fn sample_configuration_is_valid() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/hub.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hub"));
    let output = command
        .arg("--config")
        .arg(config)
        .arg("--kubeconfig=/nowhere/at/all")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("/nowhere/at/all") && !stderr.contains("hub.yaml"),
        "the only error must be the missing kubeconfig: {stderr}"
    );
}
