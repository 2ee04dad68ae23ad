//! Host names of pods.

use k3_api::name;
use k8s_openapi::api::core::v1::Pod;

use super::SpecError;

/// The longest name a host can have by the rules of DNS.
const LABEL: usize = 63;
/// The longest name the kernel keeps.
const NODE_NAME: usize = 64;

/// What a pod is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Its name as a host.
    pub host: String,
    /// Its domain; empty without a subdomain.
    pub domain: String,
    /// What `hostname` says in it.
    pub kernel: String,
}

// --- Names ---

impl Names {
    /// Those of a pod that does not share the machine's.
    pub fn of(pod: &Pod, cluster_domain: &str) -> Result<Self, SpecError> {
        let spec = pod.spec.clone().unwrap_or_default();
        if let Some(host) = spec.hostname_override {
            check(
                "HostnameOverride",
                &host,
                "subdomain",
                name::validate_dns1123_subdomain(&host),
            )?;
            let host = shortened(&host);
            return Ok(Names {
                kernel: host.clone(),
                host,
                domain: String::new(),
            });
        }
        let mut host = pod.metadata.name.clone().unwrap_or_default();
        if let Some(wanted) = spec.hostname.filter(|wanted| !wanted.is_empty()) {
            check(
                "Hostname",
                &wanted,
                "label",
                name::validate_dns1123_label(&wanted),
            )?;
            host = wanted;
        }
        let host = shortened(&host);
        let mut domain = String::new();
        if let Some(sub) = spec.subdomain.filter(|sub| !sub.is_empty()) {
            check("Subdomain", &sub, "label", name::validate_dns1123_label(&sub))?;
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            domain = format!("{sub}.{namespace}.svc.{cluster_domain}");
        }
        let mut kernel = host.clone();
        if spec.set_hostname_as_fqdn == Some(true) && !domain.is_empty() {
            kernel = format!("{host}.{domain}");
            if kernel.len() > NODE_NAME {
                return Err(SpecError::LongHostName(kernel));
            }
        }
        Ok(Names { host, domain, kernel })
    }
}

fn check(
    field: &'static str,
    value: &str,
    form: &'static str,
    problems: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<(), SpecError> {
    let problems: Vec<_> = problems.into_iter().map(|one| one.as_ref().to_owned()).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(SpecError::HostName {
        field,
        value: value.to_owned(),
        form,
        problems: problems.join(";"),
    })
}

fn shortened(host: &str) -> String {
    match host.get(..LABEL) {
        Some(short) if short.len() < host.len() => short.trim_end_matches(['-', '.']).to_owned(),
        _ => host.to_owned(),
    }
}
