//! Gathers the descriptions from the schemas of `k8s-openapi` into one deflated table; `src/lib.rs` has its form.

use std::{collections::BTreeMap, env, error::Error, fs, io::Write, path::Path};

use flate2::{Compression, write::DeflateEncoder};
use k8s_openapi::schemars::SchemaGenerator;
use serde_json::Value;

/// Adds kinds, and all types they reach, to a generator.
macro_rules! add {
    ($generator:ident, $($module:ident)::+: $($kind:ident)+) => {{
        use k8s_openapi::$($module)::+ as module;
        $(let _ = $generator.subschema_for::<module::$kind>();)+
    }};
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaGenerator::default();
    workloads(&mut generator);
    policies(&mut generator);
    machinery(&mut generator);

    let types: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    let mut table = String::new();
    for (name, schema) in &types {
        write_entry(&mut table, '\u{1e}', name, schema);
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            write_entry(&mut table, '\u{1f}', field, schema);
        }
    }
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(table.as_bytes())?;
    let out = env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    fs::write(Path::new(&out).join("table.deflate"), deflated.finish()?)?;
    Ok(())
}

/// A mark, the name, a tab, the description.
fn write_entry(table: &mut String, mark: char, name: &str, schema: &Value) {
    table.push(mark);
    table.push_str(name);
    table.push('\t');
    table.push_str(schema["description"].as_str().unwrap_or_default());
}

fn workloads(generator: &mut SchemaGenerator) {
    add!(generator, api::apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet);
    add!(generator, api::autoscaling::v1: HorizontalPodAutoscaler Scale);
    add!(generator, api::autoscaling::v2: HorizontalPodAutoscaler);
    add!(generator, api::batch::v1: CronJob Job);
    add!(generator, api::coordination::v1: Lease);
    add!(generator, api::core::v1:
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount);
    add!(generator, api::discovery::v1: EndpointSlice);
    add!(generator, api::events::v1: Event);
    add!(generator, api::node::v1: RuntimeClass);
    add!(generator, api::scheduling::v1: PriorityClass);
    add!(generator, api::storage::v1:
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass);
    add!(generator, api::storagemigration::v1: StorageVersionMigration);
}

fn policies(generator: &mut SchemaGenerator) {
    add!(generator, api::admissionregistration::v1:
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration);
    add!(generator, api::authentication::v1: SelfSubjectReview TokenRequest TokenReview);
    add!(generator, api::authorization::v1:
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview);
    add!(generator, api::certificates::v1: CertificateSigningRequest ClusterTrustBundle PodCertificateRequest);
    add!(generator, api::flowcontrol::v1: FlowSchema PriorityLevelConfiguration);
    add!(generator, api::networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR);
    add!(generator, api::policy::v1: Eviction PodDisruptionBudget);
    add!(generator, api::rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding);
    add!(generator, api::resource::v1:
        DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice);
}

fn machinery(generator: &mut SchemaGenerator) {
    add!(generator, apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition);
    add!(generator, apimachinery::pkg::apis::meta::v1:
        APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta Patch Status);
    add!(generator, apimachinery::pkg::runtime: RawExtension);
    add!(generator, apimachinery::pkg::version: Info);
    add!(generator, kube_aggregator::pkg::apis::apiregistration::v1: APIService);
}
