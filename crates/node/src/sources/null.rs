//! Every field may be `null`: the types that a node reads.

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

fn check<K: Resource<DynamicType = ()> + DeserializeOwned>() {
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
fn objects_are_read_with_null_in_every_field() {
    check::<ClusterTrustBundle>();
    check::<ConfigMap>();
    check::<Lease>();
    check::<Node>();
    check::<PersistentVolume>();
    check::<PersistentVolumeClaim>();
    check::<Pod>();
    check::<Secret>();
    check::<Service>();
    check::<ServiceAccount>();
}
