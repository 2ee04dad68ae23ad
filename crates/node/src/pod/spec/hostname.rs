//! Host names of pods.
// upstream: pkg/kubelet/kubelet_pods.go GeneratePodHostNameAndDomain, truncatePodHostnameIfNeeded

use k3_api::name;
use k8s_openapi::api::core::v1::Pod;

use super::SpecError;

/// Maximum length of a DNS label.
const MAX_LABEL_LENGTH: usize = 63;
/// Maximum length of the kernel's node name.
const MAX_KERNEL_LENGTH: usize = 64;

/// Host name and domain of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHostname {
    /// Host name.
    pub host: String,
    /// Domain; empty without a subdomain.
    pub domain: String,
    /// Host name set in the UTS namespace: the FQDN with `setHostnameAsFQDN`.
    pub kernel: String,
}

// --- PodHostname ---

impl PodHostname {
    /// Host name of a pod without `hostNetwork`.
    pub fn new(pod: &Pod, cluster_domain: &str) -> Result<Self, SpecError> {
        let spec = pod.spec.clone().unwrap_or_default();
        if let Some(host) = spec.hostname_override {
            validate(
                "HostnameOverride",
                &host,
                "subdomain",
                name::validate_dns1123_subdomain(&host),
            )?;
            let host = truncate_hostname(&host);
            return Ok(PodHostname {
                kernel: host.clone(),
                host,
                domain: String::new(),
            });
        }
        let mut host = pod.metadata.name.clone().unwrap_or_default();
        if let Some(hostname) = spec.hostname.filter(|hostname| !hostname.is_empty()) {
            validate(
                "Hostname",
                &hostname,
                "label",
                name::validate_dns1123_label(&hostname),
            )?;
            host = hostname;
        }
        let host = truncate_hostname(&host);
        let mut domain = String::new();
        if let Some(sub) = spec.subdomain.filter(|sub| !sub.is_empty()) {
            validate("Subdomain", &sub, "label", name::validate_dns1123_label(&sub))?;
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            domain = format!("{sub}.{namespace}.svc.{cluster_domain}");
        }
        let mut kernel = host.clone();
        if spec.set_hostname_as_fqdn == Some(true) && !domain.is_empty() {
            kernel = format!("{host}.{domain}");
            if kernel.len() > MAX_KERNEL_LENGTH {
                return Err(SpecError::LongHostName(kernel));
            }
        }
        Ok(PodHostname { host, domain, kernel })
    }
}

fn validate(
    field: &'static str,
    value: &str,
    name_format: &'static str,
    problems: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<(), SpecError> {
    let problems: Vec<_> = problems.into_iter().map(|one| one.as_ref().to_owned()).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(SpecError::HostName {
        field,
        value: value.to_owned(),
        name_format,
        problems: problems.join(";"),
    })
}

fn truncate_hostname(host: &str) -> String {
    match host.get(..MAX_LABEL_LENGTH) {
        Some(short) if short.len() < host.len() => short.trim_end_matches(['-', '.']).to_owned(),
        _ => host.to_owned(),
    }
}
