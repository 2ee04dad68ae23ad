//! The API server of k3 under the name kube-apiserver, with the flags that controller-runtime's envtest passes.

use std::{
    env,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use clap::Parser;
use k3_apiserver::{PodAccounts, Subnet, kubernetes_address, service_range};
use tokio::time::timeout;

use super::{
    arguments::{self, ParsedFlag},
    keys::KeyFlags,
    storage::EtcdStorageFlags,
};
use crate::{
    certificates::SubjectAltNames,
    command_error::CommandError,
    commands::start::{AccessFlags, AuditFlags, LimitFlags, OptionalAdmissionPlugin},
    controller_manager::{self, ComponentSelection},
    limits,
    log::{self, LogLevel},
    runtime,
    server::{ControlPlane, ControlPlaneSettings, KeySource},
    signals::StopSignals,
};

/// Selects the controllers to run: 1 for all, or a list as in `k3 start --controllers`. Unset runs none, as upstream.
const CONTROLLERS: &str = "K3_ENVTEST_CONTROLLERS";

/// The admission plugin that can be disabled.
const ACCOUNTS: &str = "ServiceAccount";

/// Grace period of a stop.
const GRACE: Duration = Duration::from_secs(3);

const NOTES: &str = "\
Other flags of kube-apiserver are ignored with a warning.

K3_ENVTEST_CONTROLLERS=1 in the environment runs controllers and scheduler: garbage is collected, namespaces are
deleted, deployments create pods. A list, as in `k3 start --controllers`, runs some of them. Without it none run, as upstream.";

/// Run the API server of k3 with the flags that controller-runtime's envtest passes to kube-apiserver.
#[derive(Debug, Parser)]
#[command(name = "kube-apiserver", disable_version_flag = true, args_override_self = true, after_long_help = NOTES)]
struct ApiserverFlags {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    bind_address: IpAddr,

    /// Port to listen on
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Endpoint address of the service `kubernetes` [default: that of --bind-address, or of the outbound network interface]
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,

    /// Service cluster IP range
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24", value_parser = service_range)]
    service_cluster_ip_range: Subnet,

    /// Admission plugins to disable: `ServiceAccount`; the others are always enabled
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// Authorization modes: RBAC and Node; others are not supported
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    authorization_mode: Vec<String>,

    /// Ignored: privileged pods are allowed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    allow_privileged: Option<String>,

    /// Log verbosity as in Kubernetes: from 4 debug, from 8 trace
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 0)]
    verbosity: u8,

    #[command(flatten)]
    storage: EtcdStorageFlags,

    #[command(flatten)]
    keys: KeyFlags,

    #[command(flatten)]
    access: AccessFlags,

    #[command(flatten)]
    limits: LimitFlags,

    #[command(flatten)]
    audit: AuditFlags,
}

/// Runs until a signal.
pub(super) fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), CommandError> {
    let given = arguments::read(arguments)?;
    log::init_stderr(LogLevel::WARN.with_verbosity(verbosity(&given)));
    let flags: ApiserverFlags = arguments::parse(&with_upstream_defaults(given));
    let components = components(env::var(CONTROLLERS).unwrap_or_default().trim())?;
    limits::raise_open_files();
    runtime::all_cores()?.block_on(serve(flags, components))
}

fn verbosity(flags: &[ParsedFlag]) -> u8 {
    let last = flags.iter().rev().find(|flag| flag.name == "v");
    last.and_then(|flag| flag.value.as_deref()?.parse().ok())
        .unwrap_or(0)
}

/// Adds upstream's defaults where k3's differ, and removes flags that would only cause warnings.
fn with_upstream_defaults(mut flags: Vec<ParsedFlag>) -> Vec<ParsedFlag> {
    flags.retain_mut(|flag| match (flag.name.as_str(), &mut flag.value) {
        // Old envtest versions disable the insecure port explicitly.
        ("insecure-port", Some(port)) => port != "0",
        ("enable-admission-plugins", Some(list)) => {
            let known: Vec<_> = list
                .split(',')
                .filter(|name| OptionalAdmissionPlugin::is_known(name))
                .collect();
            *list = known.join(",");
            !list.is_empty()
        }
        _ => true,
    });
    let anonymous = ParsedFlag {
        name: "anonymous-auth".to_owned(),
        value: Some("true".to_owned()),
    };
    flags.insert(0, anonymous);
    flags
}

/// Parses `K3_ENVTEST_CONTROLLERS`.
fn components(value: &str) -> Result<ComponentSelection, CommandError> {
    controller_manager::parse_controllers(match value {
        "0" | "false" => "",
        "1" | "true" => "*",
        list => list,
    })
}

async fn serve(flags: ApiserverFlags, components: ComponentSelection) -> Result<(), CommandError> {
    let mut signals = StopSignals::listen().map_err(|error| {
        CommandError::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })?;
    let settings = ControlPlaneSettings {
        components,
        ..flags.settings().await?
    };
    let mut plane = tokio::select! {
        started = ControlPlane::start(settings) => started?,
        _ = signals.next() => return Ok(()),
    };
    tokio::select! {
        failure = plane.wait_for_failure() => return Err(failure),
        _ = signals.next() => {}
    }
    // A test suite waits for the exit: abort requests after the grace period.
    let _ = timeout(GRACE, plane.stop()).await;
    Ok(())
}

// --- ApiserverFlags ---

impl ApiserverFlags {
    async fn settings(self) -> Result<ControlPlaneSettings, CommandError> {
        self.warn_about_unsupported_flags();
        let mut names = SubjectAltNames::new([
            self.bind_address,
            kubernetes_address(&self.service_cluster_ip_range),
        ]);
        names.extend(
            self.advertise_address
                .and_then(|address| address.to_string().parse().ok()),
        );
        let certificates = self.keys.certificates(&names)?;
        let storage = self.storage.config().await?;
        let is_free = self.disable_admission_plugins.iter().any(|name| name == ACCOUNTS);
        Ok(ControlPlaneSettings {
            keys: KeySource::Provided(Box::new(certificates)),
            bind: self.bind_address,
            port: self.secure_port,
            advertise: self.advertise_address,
            service_range: self.service_cluster_ip_range,
            authentication: self.access.authentication()?,
            issuer: self.access.issuer(),
            signing_key: self.access.signing_key()?,
            unrestricted_update: self.access.unrestricted_update,
            kubeconfig_out: self.access.kubeconfig_out.clone(),
            guard_owners: self.access.guards_owners(),
            pod_accounts: if is_free {
                PodAccounts::Free
            } else {
                PodAccounts::Required
            },
            limits: self.limits.limits(),
            audit: self.audit.config()?,
            ..ControlPlaneSettings::new(self.keys.cert_dir, storage)
        })
    }

    /// Warns about flags that have no effect.
    fn warn_about_unsupported_flags(&self) {
        for mode in &self.authorization_mode {
            if !["RBAC", "Node"].contains(&mode.as_str()) {
                tracing::warn!("--authorization-mode {mode} is not supported: RBAC is used");
            }
        }
        for plugin in &self.disable_admission_plugins {
            if plugin != ACCOUNTS {
                tracing::warn!(
                    "--disable-admission-plugins {plugin} is not supported: the plugin stays enabled"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k3_apiserver::Anonymous;

    use super::*;

    fn flags(line: &str) -> ApiserverFlags {
        let given = arguments::read(line.split(' ').map(str::to_owned)).unwrap();
        arguments::parse(&with_upstream_defaults(given))
    }

    #[test]
    fn defaults_are_upstreams() {
        let flags =
            flags("--etcd-servers=http://127.0.0.1:1 --insecure-port=0 --enable-admission-plugins=A,B");
        assert_eq!(flags.secure_port, 6443);
        let authentication = flags.access.authentication().unwrap();
        assert_eq!(authentication.anonymous, Anonymous::Anything);
        assert!(!flags.access.guards_owners());
    }

    #[test]
    fn the_last_value_of_a_flag_wins() {
        let line = "--etcd-servers=http://127.0.0.1:1 --anonymous-auth=false --secure-port=1 --secure-port=2 \
                    --enable-admission-plugins=A,OwnerReferencesPermissionEnforcement";
        let flags = flags(line);
        assert_eq!(flags.secure_port, 2);
        assert_eq!(
            flags.access.authentication().unwrap().anonymous,
            Anonymous::Health
        );
        assert!(flags.access.guards_owners());
    }

    #[test]
    fn the_environment_selects_controllers() {
        for (asked, runs) in [
            ("", false),
            ("0", false),
            ("1", true),
            ("true", true),
            ("namespace", true),
        ] {
            assert_eq!(!components(asked).unwrap().is_empty(), runs, "{asked}");
        }
        assert!(components("no-such").is_err());
    }
}
