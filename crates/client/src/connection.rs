//! Connecting to a server: kubeconfigs, contexts, and the flags that override them.

use std::{
    env,
    path::{Path, PathBuf},
};

use clap::Args;
use kube::{
    Client, Config,
    config::{
        AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo,
        NamedCluster, NamedContext,
    },
};
use serde_json::{Map, Value};

use crate::{
    api::ApiClient,
    error::{ClientError, with_causes},
    session::{ClientDefaults, CommandSession},
};

/// Flags that select the server, the credentials and the namespace.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectFlags {
    /// Namespace of the request [default: the namespace of the context, or `default`]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Path to a kubeconfig [default: `$K3_KUBECONFIG`, admin.kubeconfig in `$K3_DATA_DIR`, the files in `$KUBECONFIG`, the
    /// `kubeconfig` key of the configuration file, `~/.kube/config`, or admin.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Data directory of a k3 server; its admin.kubeconfig is used
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Context of the kubeconfig to use [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Address and port of the API server; overrides the kubeconfig
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Bearer token for authentication to the API server; overrides the credentials of the kubeconfig
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Path to the CA certificates that verify the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// Path to a client certificate for TLS
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,

    /// Path to the private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,

    /// Do not verify the server's certificate. The connection is insecure: anyone on the path can read and change it
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Username to impersonate for the operation
    #[arg(long = "as", value_name = "USER")]
    pub(crate) act_as: Option<String>,
}

// --- ConnectFlags ---

impl ConnectFlags {
    /// Creates a session with the server that the flags and kubeconfigs select. Sends nothing yet.
    pub(crate) async fn connect(&self, defaults: &ClientDefaults) -> Result<CommandSession, ClientError> {
        let config = self.config(defaults).await?;
        let address = config.cluster_url.authority().map(ToString::to_string);
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| {
            ClientError::new(format!("the kubeconfig is invalid: {}", with_causes(&error)))
        })?;
        Ok(CommandSession::new(
            ApiClient::new(client, address.unwrap_or_default()),
            namespace,
            self.namespace.clone(),
        ))
    }

    async fn config(&self, defaults: &ClientDefaults) -> Result<Config, ClientError> {
        let mut kubeconfig = self.load_kubeconfig(defaults)?;
        let context = self
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone());
        let context = context.unwrap_or_default();
        if let Some(name) = &self.context
            && !kubeconfig.contexts.iter().any(|context| context.name == *name)
        {
            return Err(ClientError::new(format!("context {name:?} does not exist")));
        }
        self.apply_overrides(&mut kubeconfig, &context)?;
        let options = KubeConfigOptions {
            context: Some(context),
            ..KubeConfigOptions::default()
        };
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| unusable(&error))
    }

    /// Loads the kubeconfigs, the first of the sources that exists, without the overrides of the flags.
    pub(crate) fn load_kubeconfig(&self, defaults: &ClientDefaults) -> Result<Kubeconfig, ClientError> {
        let read = |path: &Path| {
            Kubeconfig::read_from(path)
                .map_err(|error| ClientError::new(format!("{}: {}", path.display(), with_causes(&error))))
        };
        if let Some(file) = &self.kubeconfig {
            return read(file);
        }
        if let Some(directory) = &self.data_dir {
            return read(&directory.join(ADMIN));
        }
        if let Some(file) = &defaults.preferred_kubeconfig {
            return read(file);
        }
        if env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty()) {
            let merged = Kubeconfig::from_env().map_err(|error| unusable(&error))?;
            return Ok(merged.unwrap_or_default());
        }
        if let Some(file) = &defaults.configured_kubeconfig {
            return read(file);
        }
        if let Some(path) = home_kubeconfig().filter(|path| path.exists()) {
            return read(&path);
        }
        if defaults.admin_kubeconfig.exists() {
            return read(&defaults.admin_kubeconfig);
        }
        if self.server.is_some() {
            return Ok(Kubeconfig::default());
        }
        Err(ClientError::new(format!(
            "no kubeconfig found: $KUBECONFIG is not set, and neither ~/.kube/config nor {} exists; use --kubeconfig or \
            --server",
            defaults.admin_kubeconfig.display()
        )))
    }

    /// Overrides the cluster and the user of `context` with the flags.
    fn apply_overrides(&self, kubeconfig: &mut Kubeconfig, context: &str) -> Result<(), ClientError> {
        if !kubeconfig
            .contexts
            .iter()
            .any(|existing| existing.name == context)
        {
            kubeconfig.contexts.push(NamedContext {
                name: context.to_owned(),
                context: Some(Context {
                    cluster: context.to_owned(),
                    user: Some(context.to_owned()),
                    ..Context::default()
                }),
                ..NamedContext::default()
            });
        }
        let context = kubeconfig
            .contexts
            .iter()
            .find(|existing| existing.name == context);
        let context = context
            .and_then(|existing| existing.context.clone())
            .unwrap_or_default();
        let cluster = find_or_insert(
            &mut kubeconfig.clusters,
            |existing| existing.name == context.cluster,
            || NamedCluster {
                name: context.cluster.clone(),
                ..NamedCluster::default()
            },
        );
        self.override_cluster(cluster.cluster.get_or_insert_default());
        let user = context.user.unwrap_or_default();
        let user = find_or_insert(
            &mut kubeconfig.auth_infos,
            |existing| existing.name == user,
            || NamedAuthInfo {
                name: user.clone(),
                ..NamedAuthInfo::default()
            },
        );
        self.override_user(user.auth_info.get_or_insert_default())
    }

    // upstream: staging/src/k8s.io/client-go/tools/clientcmd/client_config.go DirectClientConfig
    fn override_cluster(&self, cluster: &mut Cluster) {
        if let Some(server) = &self.server {
            let has_scheme = server.contains("://");
            cluster.server = Some(if has_scheme {
                server.clone()
            } else {
                format!("https://{server}")
            });
            // It is the name of the kubeconfig's server, not of this one.
            cluster.tls_server_name = None;
        }
        // These flags decide together how the server is verified: a kubeconfig that skips verification must not turn off that
        // with the CA of the flag.
        if self.certificate_authority.is_some() || self.insecure_skip_tls_verify {
            let file = self.certificate_authority.as_ref();
            cluster.certificate_authority = file.map(|file| file.display().to_string());
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = Some(self.insecure_skip_tls_verify);
        }
    }

    fn override_user(&self, user: &mut AuthInfo) -> Result<(), ClientError> {
        let mut credentials = Map::new();
        // Credentials of the flags replace all of the kubeconfig's: a certificate there would win over a token here.
        if let Some(token) = &self.token {
            credentials.insert("token".to_owned(), token.clone().into());
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            credentials.insert(
                "client-certificate".to_owned(),
                certificate.display().to_string().into(),
            );
            credentials.insert("client-key".to_owned(), key.display().to_string().into());
        }
        if !credentials.is_empty() {
            *user = serde_json::from_value(Value::Object(credentials)).map_err(ClientError::new)?;
        }
        if let Some(name) = &self.act_as {
            user.impersonate = Some(name.clone());
        }
        Ok(())
    }
}

/// The file name of the admin's kubeconfig in a data directory.
pub(crate) const ADMIN: &str = "admin.kubeconfig";

// upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go NewDefaultClientConfigLoadingRules
/// Returns `~/.kube/config`, kubectl's default.
pub(crate) fn home_kubeconfig() -> Option<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".kube/config"))
}

fn unusable(error: &KubeconfigError) -> ClientError {
    match error {
        // The text of `kube` quotes the path twice.
        KubeconfigError::ReadConfig(cause, path) => ClientError::new(format!(
            "failed to read the kubeconfig {}: {cause}; name another one with --kubeconfig or $KUBECONFIG; `k3 start` prints where it wrote its own",
            path.display()
        )),
        _ => ClientError::new(format!("invalid kubeconfig: {}", with_causes(error))),
    }
}

fn find_or_insert<T>(
    items: &mut Vec<T>,
    is_match: impl Fn(&T) -> bool,
    create: impl FnOnce() -> T,
) -> &mut T {
    let index = items.iter().position(is_match).unwrap_or_else(|| {
        items.push(create());
        items.len() - 1
    });
    &mut items[index]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig() -> Kubeconfig {
        serde_json::from_value(json!({
            "current-context": "one",
            "clusters": [
                {"name": "c", "cluster": {"server": "https://one:6443", "certificate-authority-data": "QQ==",
                    "tls-server-name": "one.internal"}},
                {"name": "open", "cluster": {"server": "https://open:6443", "insecure-skip-tls-verify": true}},
            ],
            "users": [{"name": "u", "user": {"client-certificate-data": "QQ==", "client-key-data": "QQ==", "token": "old"}}],
            "contexts": [
                {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
                {"name": "open", "context": {"cluster": "open", "user": "u"}},
            ],
        }))
        .unwrap()
    }

    /// The cluster and the user that a context has with these flags.
    fn overridden(flags: &ConnectFlags, context: &str) -> (Cluster, AuthInfo) {
        let mut kubeconfig = kubeconfig();
        flags.apply_overrides(&mut kubeconfig, context).unwrap();
        let named = |name: &str| {
            let found = kubeconfig.contexts.iter().find(|found| found.name == name);
            found.unwrap().context.clone().unwrap()
        };
        let context = named(context);
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|found| found.name == context.cluster);
        let user = kubeconfig
            .auth_infos
            .iter()
            .find(|found| Some(&found.name) == context.user.as_ref());
        (
            cluster.unwrap().cluster.clone().unwrap(),
            user.unwrap().auth_info.clone().unwrap(),
        )
    }

    fn flags(change: impl FnOnce(&mut ConnectFlags)) -> ConnectFlags {
        let mut flags = ConnectFlags::default();
        change(&mut flags);
        flags
    }

    #[test]
    fn without_flags_nothing_changes() {
        let (cluster, user) = overridden(&ConnectFlags::default(), "one");
        assert_eq!(cluster.server.as_deref(), Some("https://one:6443"));
        assert_eq!(cluster.tls_server_name.as_deref(), Some("one.internal"));
        assert!(cluster.certificate_authority_data.is_some() && cluster.insecure_skip_tls_verify.is_none());
        assert!(user.token.is_some() && user.client_certificate_data.is_some());
    }

    #[test]
    fn another_server_is_not_verified_by_the_name_of_the_first() {
        let (cluster, _) = overridden(
            &flags(|flags| flags.server = Some("other:6443".to_owned())),
            "one",
        );
        assert_eq!(cluster.server.as_deref(), Some("https://other:6443"));
        assert_eq!(cluster.tls_server_name, None);
        let (cluster, _) = overridden(
            &flags(|flags| flags.server = Some("http://other".to_owned())),
            "one",
        );
        assert_eq!(cluster.server.as_deref(), Some("http://other"));
    }

    #[test]
    fn a_certificate_authority_turns_verification_on() {
        let with_authority = flags(|flags| flags.certificate_authority = Some("ca.crt".into()));
        for context in ["one", "open"] {
            let (cluster, _) = overridden(&with_authority, context);
            assert_eq!(
                cluster.certificate_authority.as_deref(),
                Some("ca.crt"),
                "{context}"
            );
            assert_eq!(cluster.certificate_authority_data, None, "{context}");
            assert_eq!(cluster.insecure_skip_tls_verify, Some(false), "{context}");
        }
    }

    #[test]
    fn skipping_verification_drops_the_certificate_authority() {
        let (cluster, _) = overridden(&flags(|flags| flags.insecure_skip_tls_verify = true), "one");
        assert_eq!(
            (cluster.certificate_authority, cluster.certificate_authority_data),
            (None, None)
        );
        assert_eq!(cluster.insecure_skip_tls_verify, Some(true));
    }

    /// A certificate of the kubeconfig would be preferred to the token.
    #[test]
    fn credentials_of_flags_replace_all_of_the_kubeconfig() {
        let (_, user) = overridden(&flags(|flags| flags.token = Some("new".to_owned())), "one");
        assert!(user.token.is_some());
        assert!(user.client_certificate_data.is_none() && user.client_key_data.is_none());
        let with_certificate = flags(|flags| {
            flags.client_certificate = Some("a.crt".into());
            flags.client_key = Some("a.key".into());
        });
        let (_, user) = overridden(&with_certificate, "one");
        assert_eq!(user.client_certificate.as_deref(), Some("a.crt"));
        assert!(user.token.is_none() && user.client_certificate_data.is_none());
    }

    #[test]
    fn impersonation_keeps_the_credentials() {
        let (_, user) = overridden(&flags(|flags| flags.act_as = Some("bob".to_owned())), "one");
        assert_eq!(user.impersonate.as_deref(), Some("bob"));
        assert!(user.token.is_some());
    }

    #[test]
    fn a_context_that_is_not_there_is_made_of_the_flags() {
        let with_server = flags(|flags| {
            flags.server = Some("https://other".to_owned());
            flags.token = Some("t".to_owned());
        });
        let (cluster, user) = overridden(&with_server, "none");
        assert_eq!(cluster.server.as_deref(), Some("https://other"));
        assert!(user.token.is_some());
    }
}
