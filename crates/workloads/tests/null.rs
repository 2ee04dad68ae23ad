//! Decoding of `null` in every field.

use k3_api::kinds::builtin;
use k3_test_objects::null_objects;
use k3_workloads::{Node, Pod};
use kubecontroller::decode;

#[test]
fn decodes_null_in_every_field() {
    let kind = |name: &str| builtin().kind("", "v1", name).expect("the kind is built in");
    for object in null_objects(kind("Pod")) {
        assert!(decode::from_value::<Pod>(&object).is_ok(), "{object}");
    }
    for object in null_objects(kind("Node")) {
        assert!(decode::from_value::<Node>(&object).is_ok(), "{object}");
    }
}
