//! The resources that controllers read and write.

use kubecontroller::resource::{Resource, ResourceScope};

macro_rules! resources {
    ($($name:ident = $group:literal $version:literal $plural:literal $kind:literal $scope:ident;)*) => {
        $(
            #[doc = concat!("`", $plural, "`.")]
            pub static $name: Resource =
                Resource::new($group, $version, $plural, $kind, ResourceScope::$scope);
        )*
    };
}

resources! {
    CERTIFICATE_SIGNING_REQUESTS = "certificates.k8s.io" "v1" "certificatesigningrequests" "CertificateSigningRequest" Cluster;
    CLUSTER_ROLES = "rbac.authorization.k8s.io" "v1" "clusterroles" "ClusterRole" Cluster;
    CLUSTER_TRUST_BUNDLES = "certificates.k8s.io" "v1" "clustertrustbundles" "ClusterTrustBundle" Cluster;
    CONFIG_MAPS = "" "v1" "configmaps" "ConfigMap" Namespaced;
    CONTROLLER_REVISIONS = "apps" "v1" "controllerrevisions" "ControllerRevision" Namespaced;
    CRON_JOBS = "batch" "v1" "cronjobs" "CronJob" Namespaced;
    CUSTOM_RESOURCE_DEFINITIONS = "apiextensions.k8s.io" "v1" "customresourcedefinitions" "CustomResourceDefinition" Cluster;
    DAEMON_SETS = "apps" "v1" "daemonsets" "DaemonSet" Namespaced;
    DEPLOYMENTS = "apps" "v1" "deployments" "Deployment" Namespaced;
    DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses" "DeviceClass" Cluster;
    ENDPOINTS = "" "v1" "endpoints" "Endpoints" Namespaced;
    ENDPOINT_SLICES = "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" Namespaced;
    EVENTS = "" "v1" "events" "Event" Namespaced;
    HORIZONTAL_POD_AUTOSCALERS = "autoscaling" "v2" "horizontalpodautoscalers" "HorizontalPodAutoscaler" Namespaced;
    JOBS = "batch" "v1" "jobs" "Job" Namespaced;
    LEASES = "coordination.k8s.io" "v1" "leases" "Lease" Namespaced;
    NAMESPACES = "" "v1" "namespaces" "Namespace" Cluster;
    NODES = "" "v1" "nodes" "Node" Cluster;
    PERSISTENT_VOLUMES = "" "v1" "persistentvolumes" "PersistentVolume" Cluster;
    PERSISTENT_VOLUME_CLAIMS = "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" Namespaced;
    PODS = "" "v1" "pods" "Pod" Namespaced;
    POD_DISRUPTION_BUDGETS = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" Namespaced;
    REPLICATION_CONTROLLERS = "" "v1" "replicationcontrollers" "ReplicationController" Namespaced;
    REPLICA_SETS = "apps" "v1" "replicasets" "ReplicaSet" Namespaced;
    RESOURCE_CLAIMS = "resource.k8s.io" "v1" "resourceclaims" "ResourceClaim" Namespaced;
    RESOURCE_QUOTAS = "" "v1" "resourcequotas" "ResourceQuota" Namespaced;
    SECRETS = "" "v1" "secrets" "Secret" Namespaced;
    SERVICES = "" "v1" "services" "Service" Namespaced;
    SERVICE_ACCOUNTS = "" "v1" "serviceaccounts" "ServiceAccount" Namespaced;
    SERVICE_CIDRS = "networking.k8s.io" "v1" "servicecidrs" "ServiceCIDR" Cluster;
    IP_ADDRESSES = "networking.k8s.io" "v1" "ipaddresses" "IPAddress" Cluster;
    STATEFUL_SETS = "apps" "v1" "statefulsets" "StatefulSet" Namespaced;
    STORAGE_CLASSES = "storage.k8s.io" "v1" "storageclasses" "StorageClass" Cluster;
    SUBJECT_ACCESS_REVIEWS = "authorization.k8s.io" "v1" "subjectaccessreviews" "SubjectAccessReview" Cluster;
    STORAGE_VERSION_MIGRATIONS = "storagemigration.k8s.io" "v1" "storageversionmigrations" "StorageVersionMigration" Cluster;
    VALIDATING_ADMISSION_POLICIES = "admissionregistration.k8s.io" "v1" "validatingadmissionpolicies" "ValidatingAdmissionPolicy" Cluster;
    VOLUME_ATTRIBUTES_CLASSES = "storage.k8s.io" "v1" "volumeattributesclasses" "VolumeAttributesClass" Cluster;
}
