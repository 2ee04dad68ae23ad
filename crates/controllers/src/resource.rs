//! The resources that controllers read and write.

use std::{borrow::Cow, fmt::Write as _};

use k3_workloads::{ObjectMeta, OwnerReference};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::ApiResource;

/// A resource of the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The group; empty for the first one.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The name in paths.
    pub plural: Cow<'static, str>,
    /// The name in objects.
    pub kind: Cow<'static, str>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

macro_rules! resources {
    ($($name:ident = $group:literal $version:literal $plural:literal $kind:literal $namespaced:literal;)*) => {
        $(
            #[doc = concat!("`", $plural, "`.")]
            pub static $name: Resource = Resource::new($group, $version, $plural, $kind, $namespaced);
        )*
    };
}

resources! {
    CERTIFICATE_SIGNING_REQUESTS = "certificates.k8s.io" "v1" "certificatesigningrequests" "CertificateSigningRequest" false;
    CLUSTER_ROLES = "rbac.authorization.k8s.io" "v1" "clusterroles" "ClusterRole" false;
    CLUSTER_TRUST_BUNDLES = "certificates.k8s.io" "v1" "clustertrustbundles" "ClusterTrustBundle" false;
    CONFIG_MAPS = "" "v1" "configmaps" "ConfigMap" true;
    CONTROLLER_REVISIONS = "apps" "v1" "controllerrevisions" "ControllerRevision" true;
    CRON_JOBS = "batch" "v1" "cronjobs" "CronJob" true;
    CUSTOM_RESOURCE_DEFINITIONS = "apiextensions.k8s.io" "v1" "customresourcedefinitions" "CustomResourceDefinition" false;
    DAEMON_SETS = "apps" "v1" "daemonsets" "DaemonSet" true;
    DEPLOYMENTS = "apps" "v1" "deployments" "Deployment" true;
    DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses" "DeviceClass" false;
    ENDPOINTS = "" "v1" "endpoints" "Endpoints" true;
    ENDPOINT_SLICES = "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" true;
    EVENTS = "" "v1" "events" "Event" true;
    HORIZONTAL_POD_AUTOSCALERS = "autoscaling" "v2" "horizontalpodautoscalers" "HorizontalPodAutoscaler" true;
    JOBS = "batch" "v1" "jobs" "Job" true;
    LEASES = "coordination.k8s.io" "v1" "leases" "Lease" true;
    NAMESPACES = "" "v1" "namespaces" "Namespace" false;
    NODES = "" "v1" "nodes" "Node" false;
    PERSISTENT_VOLUMES = "" "v1" "persistentvolumes" "PersistentVolume" false;
    PERSISTENT_VOLUME_CLAIMS = "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" true;
    PODS = "" "v1" "pods" "Pod" true;
    POD_DISRUPTION_BUDGETS = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" true;
    REPLICATION_CONTROLLERS = "" "v1" "replicationcontrollers" "ReplicationController" true;
    REPLICA_SETS = "apps" "v1" "replicasets" "ReplicaSet" true;
    RESOURCE_CLAIMS = "resource.k8s.io" "v1" "resourceclaims" "ResourceClaim" true;
    RESOURCE_QUOTAS = "" "v1" "resourcequotas" "ResourceQuota" true;
    SECRETS = "" "v1" "secrets" "Secret" true;
    SERVICES = "" "v1" "services" "Service" true;
    SERVICE_ACCOUNTS = "" "v1" "serviceaccounts" "ServiceAccount" true;
    SERVICE_CIDRS = "networking.k8s.io" "v1" "servicecidrs" "ServiceCIDR" false;
    IP_ADDRESSES = "networking.k8s.io" "v1" "ipaddresses" "IPAddress" false;
    STATEFUL_SETS = "apps" "v1" "statefulsets" "StatefulSet" true;
    STORAGE_CLASSES = "storage.k8s.io" "v1" "storageclasses" "StorageClass" false;
    SUBJECT_ACCESS_REVIEWS = "authorization.k8s.io" "v1" "subjectaccessreviews" "SubjectAccessReview" false;
    STORAGE_VERSION_MIGRATIONS = "storagemigration.k8s.io" "v1" "storageversionmigrations" "StorageVersionMigration" false;
    VALIDATING_ADMISSION_POLICIES = "admissionregistration.k8s.io" "v1" "validatingadmissionpolicies" "ValidatingAdmissionPolicy" false;
    VOLUME_ATTRIBUTES_CLASSES = "storage.k8s.io" "v1" "volumeattributesclasses" "VolumeAttributesClass" false;
}

// --- Resource ---

impl Resource {
    /// A resource that is known when this is written.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Resource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// Group and version, as objects name them.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// An object of this resource as events and others name it.
    pub fn object_reference(&self, meta: &ObjectMeta) -> ObjectReference {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ObjectReference {
            api_version: Some(self.api_version()),
            kind: Some(self.kind.to_string()),
            name: text(&meta.name),
            namespace: text(&meta.namespace),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
            field_path: None,
        }
    }

    /// An object of this resource as the one that controls another.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go NewControllerRef
    pub fn controller_reference(&self, meta: &ObjectMeta) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version().into(),
            kind: (&*self.kind).into(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// Group, version and name, as messages give them.
    // upstream: staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go String
    pub fn group_version_resource_text(&self) -> String {
        let Resource {
            group,
            version,
            plural,
            ..
        } = self;
        format!("{group}/{version}, Resource={plural}")
    }

    /// The path of the objects of a namespace; of all of them if it is empty.
    pub fn path(&self, namespace: &str) -> String {
        let mut path = String::from(if self.group.is_empty() { "/api" } else { "/apis" });
        if !self.group.is_empty() {
            push_segment(&mut path, &self.group);
        }
        push_segment(&mut path, &self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        push_segment(&mut path, &self.plural);
        path
    }

    /// The path of an object.
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        let mut path = self.path(namespace);
        push_segment(&mut path, name);
        path
    }

    /// As a kube `ApiResource`.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_string(),
            version: self.version.to_string(),
            api_version: self.api_version(),
            kind: self.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }
}

/// Appends one segment to a path. Names may be taken from references in objects, which any user may write: whatever such a name
/// is, it never becomes another path, another segment, or a query.
pub(crate) fn push_segment(path: &mut String, text: &str) {
    path.push('/');
    let is_relative = matches!(text, "." | "..");
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'~' | b':' | b'*' | b'@')
            || (byte == b'.' && !is_relative);
        if is_plain {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_names_in_paths() {
        for (name, path) in [
            ("web-0", "/api/v1/namespaces/shop/pods/web-0"),
            ("system:node", "/api/v1/namespaces/shop/pods/system:node"),
            ("x/proxy/admin", "/api/v1/namespaces/shop/pods/x%2Fproxy%2Fadmin"),
            ("x?watch=true", "/api/v1/namespaces/shop/pods/x%3Fwatch%3Dtrue"),
            ("..", "/api/v1/namespaces/shop/pods/%2E%2E"),
            (".", "/api/v1/namespaces/shop/pods/%2E"),
            (
                "x#y z\u{e9}%2f",
                "/api/v1/namespaces/shop/pods/x%23y%20z%C3%A9%252f",
            ),
        ] {
            assert_eq!(PODS.object_path("shop", name), path);
        }
        assert_eq!(PODS.path("../a"), "/api/v1/namespaces/..%2Fa/pods");
        let external = Resource {
            plural: "a/b?c".into(),
            ..Resource::new(
                "external.metrics.k8s.io",
                "v1beta1",
                "",
                "ExternalMetricValue",
                true,
            )
        };
        assert_eq!(
            external.path("shop"),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/a%2Fb%3Fc"
        );
    }

    #[test]
    fn builds_resource_paths() {
        assert_eq!(PODS.path("shop"), "/api/v1/namespaces/shop/pods");
        assert_eq!(PODS.path(""), "/api/v1/pods");
        assert_eq!(NODES.path("ignored"), "/api/v1/nodes");
        assert_eq!(
            REPLICA_SETS.path("shop"),
            "/apis/apps/v1/namespaces/shop/replicasets"
        );
    }
}
