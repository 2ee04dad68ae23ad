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

    fn override_cluster(&self, cluster: &mut Cluster) {
        if let Some(server) = &self.server {
            let has_scheme = server.contains("://");
            cluster.server = Some(if has_scheme {
                server.clone()
            } else {
                format!("https://{server}")
            });
        }
        if let Some(file) = &self.certificate_authority {
            cluster.certificate_authority = Some(file.display().to_string());
            cluster.certificate_authority_data = None;
        }
        if self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = Some(true);
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
