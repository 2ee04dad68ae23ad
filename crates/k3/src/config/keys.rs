//! The table of settings, in the order in which they are shown.
//!
//! Those of storage backends are in the backends. To add another one: a flag of a command, a line here, and
//! `K3_UPDATE_DOCS=1 cargo nextest run -p k3 config::`, which updates the example and the table of `docs/configuration.md`.

use std::sync::LazyLock;

use clap::Arg;
use k3_config::ConfigKey;
use k3_storage::backend::{BACKENDS, Setting, SettingDefault, SettingKind};

use crate::databases::database_images;

/// A line of the table. Flag, type, help and default are those of the argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    /// Key in the file, with dots between sections.
    pub(crate) name: &'static str,
    /// Clap id of the argument, which is the name of the field.
    pub(crate) id: &'static str,
    /// An additional environment variable.
    variable: Option<&'static str>,
    /// The default, if the argument has none.
    default: &'static str,
    is_secret: bool,
}

const fn key(name: &'static str, id: &'static str) -> KeyRow {
    KeyRow {
        name,
        id,
        variable: None,
        default: "",
        is_secret: false,
    }
}

/// Names of values that are lists in one text.
const JOINED_LISTS: [&str; 2] = ["LIST", "URLS"];

/// Prefix of the variables of settings.
pub(super) const VARIABLES: &str = "K3_";

/// Prefixes of variables that are not settings: of other flags, of tests, or set by Kubernetes in containers for a Service
/// that is named `k3`.
pub(super) const OTHER_VARIABLES: &[&str] = &[
    "K3_CHILD_",
    "K3_CRASH_",
    "K3_ENVTEST_",
    "K3_FACTS",
    "K3_FUZZ_",
    "K3_GOLDEN",
    "K3_KEEP_NAMES",
    "K3_MIGRATE_",
    "K3_OBJECTS",
    "K3_PORT",
    "K3_REQUIRE_",
    "K3_SERVICE_",
    "K3_TEST_",
    "K3_UPDATE_DOCS",
];

/// All settings.
pub(super) static KEYS: LazyLock<Vec<KeyRow>> = LazyLock::new(|| {
    let of_backends = BACKENDS.iter().flat_map(|backend| backend.settings().all);
    let mut keys = GENERAL.to_vec();
    keys.extend(of_backends.map(KeyRow::from));
    keys.push(key("database.autostart", "database_autostart"));
    keys.extend(database_images().map(KeyRow::from));
    keys.extend_from_slice(COMPONENTS);
    keys
});

/// Those before the settings of storage backends.
const GENERAL: &[KeyRow] = &[
    key("debug", "debug"),
    key("role", "role"),
    key("data_dir", "data_dir"),
    key("server", "server"),
    key("token", "token").secret(),
    key("ca", "ca"),
    key("kubeconfig", "kubeconfig"),
    key("kubeconfig_out", "kubeconfig_out"),
    key("api.bind", "bind"),
    key("api.port", "secure_port"),
    key("api.insecure_port", "insecure_port"),
    key("api.advertise_address", "advertise_address"),
    key("api.tls_san", "tls_san"),
    key("api.service_cluster_ip_range", "service_cluster_ip_range"),
    key("api.unrestricted_update", "unrestricted_update"),
    key("api.admission_plugins", "enable_admission_plugins"),
    key("web.port", "web_port"),
    key("web.cors", "web_cors"),
    key("log.level", "log_level"),
    key("log.verbosity", "verbosity"),
    key("log.path", "log_path"),
    key("log.format", "log_format"),
    key("log.max_size", "log_max_size"),
    key("log.max_files", "log_max_files"),
    key("storage.type", "storage"),
    key("storage.wait", "storage_wait"),
];

/// Those after the settings of storage backends and their images.
const COMPONENTS: &[KeyRow] = &[
    key("database.instance", "database_instance"),
    key("jwt.signing_key", "jwt_signing_key").secret(),
    key("jwt.issuer", "service_account_issuer"),
    key("jwt.key_files", "service_account_key_file"),
    key("jwt.audiences", "api_audiences"),
    key("auth.token_file", "token_auth_file"),
    key("auth.anonymous", "anonymous_auth"),
    key("auth.allow_localhost", "authn_allow_localhost"),
    key("auth.kubectl_disabled", "kubectl_disabled"),
    key("auth.kubectl_ephemeral_token", "kubectl_ephemeral_token"),
    key(
        "auth.kubectl_ephemeral_token_duration",
        "kubectl_ephemeral_token_duration",
    ),
    key("limits.max_requests_inflight", "max_requests_inflight"),
    key(
        "limits.max_mutating_requests_inflight",
        "max_mutating_requests_inflight",
    ),
    key("limits.max_watches_per_user", "max_watches_per_user"),
    key("limits.request_timeout", "request_timeout"),
    key("audit.policy_file", "audit_policy_file"),
    key("audit.log_path", "audit_log_path"),
    key("audit.log_maxsize", "audit_log_maxsize"),
    key("audit.log_maxage", "audit_log_maxage"),
    key("audit.log_maxbackup", "audit_log_maxbackup"),
    key("audit.log_compress", "audit_log_compress"),
    key("encryption.provider_config", "encryption_provider_config"),
    key(
        "encryption.automatic_reload",
        "encryption_provider_config_automatic_reload",
    ),
    key("controllers.enabled", "controllers"),
    key("controllers.no_leader_elect", "no_leader_elect"),
    key("controllers.metrics_address", "metrics_address"),
    key("controllers.health_address", "health_address"),
    key("simulation.nodes", "simulated_nodes"),
    key("simulation.rules", "simulation_rules"),
    key("node.disabled", "no_node"),
    key("node.name", "node_name").variable("NODE_NAME"),
    key("node.runtime", "runtime"),
    key("node.runtime_endpoint", "runtime_endpoint"),
    key("node.port", "node_port"),
    key("node.pod_manifest_path", "pod_manifest_path"),
    key("node.container_start_limit", "container_start_limit"),
    key("node.container_stop_limit", "container_stop_limit"),
    key("node.seccomp_default", "seccomp_default"),
    key("node.eviction_hard", "eviction_hard"),
    key("node.image_gc_high_threshold", "image_gc_high_threshold"),
];

// --- KeyRow ---

impl KeyRow {
    const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// The key with its argument.
    pub(super) fn with_arg(&self, arg: Arg) -> ConfigKey {
        let names = arg.get_value_names().unwrap_or_default();
        let is_joined = names.iter().any(|name| JOINED_LISTS.contains(&name.as_str()));
        let mut key = ConfigKey::new(self.name, arg);
        if is_joined {
            key = key.joining_lists();
        }
        if !self.default.is_empty() {
            key = key.with_implied_default(self.default);
        }
        if self.is_secret {
            key = key.secret();
        }
        match self.variable {
            Some(variable) => key.with_variable(variable),
            None => key,
        }
    }
}

impl From<&'static Setting> for KeyRow {
    fn from(setting: &'static Setting) -> Self {
        KeyRow {
            name: setting.key,
            id: setting.id,
            variable: setting.variable,
            default: match setting.default {
                SettingDefault::Implied(value) => value,
                SettingDefault::Unset | SettingDefault::Value(_) => "",
            },
            is_secret: matches!(setting.kind, SettingKind::Secret),
        }
    }
}
