//! The resources that controllers read and write.

use kubecontroller::resource::Resource;

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
