//! The types that a node reads accept `null` in every field.

use k3_api::kinds::builtin;
use k3_test_objects::null_objects;
use k8s_openapi::api::{
    certificates::v1::ClusterTrustBundle,
    coordination::v1::Lease,
    core::v1::{
        ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
    },
};
use kube::Resource;
use kubecontroller::decode;
use serde::de::DeserializeOwned;

fn check_null_fields<K: Resource<DynamicType = ()> + DeserializeOwned>() {
    let kind = builtin()
        .kind(&K::group(&()), &K::version(&()), &K::kind(&()))
        .expect("the kind is built in");
    for object in null_objects(kind) {
        if let Err(error) = decode::from_value::<K>(&object) {
            panic!("{object}: {error}");
        }
    }
}

#[test]
fn decodes_objects_with_null_in_every_field() {
    check_null_fields::<ClusterTrustBundle>();
    check_null_fields::<ConfigMap>();
    check_null_fields::<Lease>();
    check_null_fields::<Node>();
    check_null_fields::<PersistentVolume>();
    check_null_fields::<PersistentVolumeClaim>();
    check_null_fields::<Pod>();
    check_null_fields::<Secret>();
    check_null_fields::<Service>();
    check_null_fields::<ServiceAccount>();
}
