//! Stands in for kube-apiserver: the API server of k3 with the flags that test environments pass.

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
    certificates::Names,
    commands::start::{AccessFlags, AuditFlags, LimitFlags, Plugin},
    controller_manager::{self, ComponentSelection},
    failure::Failure,
    limits,
    log::{self, LogLevel},
    runtime,
    server::{ControlPlane, KeySource, Settings},
    signals::Signals,
};

/// Which controllers run: 1 for all, or a list as `k3 start --controllers` takes it. None run without it, as upstream.
const CONTROLLERS: &str = "K3_ENVTEST_CONTROLLERS";

/// The plugin that can be left out.
const ACCOUNTS: &str = "ServiceAccount";

/// How long the end may take.
const GRACE: Duration = Duration::from_secs(3);

const NOTES: &str = "\
Other flags of kube-apiserver are ignored with a warning.

K3_ENVTEST_CONTROLLERS=1 in the environment runs controllers and scheduler: garbage is collected, namespaces are
deleted, deployments create pods. A list, as in `k3 start --controllers`, runs some of them. Without it none run, as upstream.";

/// The API server of k3 under the name, and with the flags, that test environments of controller-runtime know.
#[derive(Debug, Parser)]
#[command(name = "kube-apiserver", disable_version_flag = true, args_override_self = true, after_long_help = NOTES)]
struct ApiserverFlags {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    bind_address: IpAddr,

    /// Port to listen on
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Address that the service `kubernetes` leads to [default: that of --bind-address, or one that others reach]
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,

    /// Network from which services get their addresses
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24", value_parser = service_range)]
    service_cluster_ip_range: Subnet,

    /// Plugins that are not asked: `ServiceAccount`; the others always run
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// RBAC and Node; there are no others
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    authorization_mode: Vec<String>,

    /// Ignored: pods may be privileged
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    allow_privileged: Option<String>,

    /// How much is written to standard error, as programs of Kubernetes count it: from 4 on details, from 8 on everything
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
pub(super) fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let given = arguments::read(arguments)?;
    log::init_stderr(LogLevel::WARN.with_verbosity(verbosity(&given)));
    let flags: ApiserverFlags = arguments::parse(&as_upstream(given));
    let components = components(env::var(CONTROLLERS).unwrap_or_default().trim())?;
    limits::raise_open_files();
    runtime::all_cores()?.block_on(live(flags, components))
}

fn verbosity(given: &[ParsedFlag]) -> u8 {
    let said = given.iter().rev().find(|flag| flag.name == "v");
    said.and_then(|flag| flag.value.as_deref()?.parse().ok())
        .unwrap_or(0)
}

/// The flags with upstream's defaults where ours are others, and without what would only be complained of.
fn as_upstream(mut given: Vec<ParsedFlag>) -> Vec<ParsedFlag> {
    given.retain_mut(|flag| match (flag.name.as_str(), &mut flag.value) {
        // How old environments say that nothing is served without TLS.
        ("insecure-port", Some(port)) => port != "0",
        ("enable-admission-plugins", Some(list)) => {
            let ours: Vec<_> = list.split(',').filter(|name| Plugin::is_known(name)).collect();
            *list = ours.join(",");
            !list.is_empty()
        }
        _ => true,
    });
    let anonymous = ParsedFlag {
        name: "anonymous-auth".to_owned(),
        value: Some("true".to_owned()),
    };
    given.insert(0, anonymous);
    given
}

/// What the environment asks for.
fn components(asked: &str) -> Result<ComponentSelection, Failure> {
    controller_manager::parse_controllers(match asked {
        "0" | "false" => "",
        "1" | "true" => "*",
        list => list,
    })
}

async fn live(flags: ApiserverFlags, components: ComponentSelection) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| {
        Failure::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })?;
    let settings = Settings {
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
    // A suite waits for the end: what is slow is cut off.
    let _ = timeout(GRACE, plane.stop()).await;
    Ok(())
}

// --- ApiserverFlags ---

impl ApiserverFlags {
    async fn settings(self) -> Result<Settings, Failure> {
        self.warn_about_unsupported_flags();
        let mut names = Names::new([
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
        Ok(Settings {
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
            ..Settings::new(self.keys.cert_dir, storage)
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
        arguments::parse(&as_upstream(given))
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
    fn what_is_said_counts_and_the_last_of_it() {
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
