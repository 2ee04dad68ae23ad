//! How the server is reached: files, contexts, and flags that overrule them.

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
    api::Api,
    failed::{Failed, with_causes},
    session::{Session, Surroundings},
};

/// How the server is reached, and in which namespace one works.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectFlags {
    /// Namespace to work in [default: that of the context, or `default`]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Path to a kubeconfig [default: `$K3_KUBECONFIG`, admin.kubeconfig in `$K3_DATA_DIR`, the files that `$KUBECONFIG`
    /// names, what the configuration file says, `~/.kube/config`, or admin.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The data folder of a k3 server, in which the admin's kubeconfig is
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Server, instead of the kubeconfig's
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Token that proves who one is, instead of what the kubeconfig has
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// File with the certificates of the authority that vouches for the server
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// File with a certificate that proves who one is
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,

    /// File with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,

    /// Do not check that the server is who it says it is: anybody in between can read and change everything
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Act as this user
    #[arg(long = "as", value_name = "USER")]
    pub(crate) act_as: Option<String>,
}

// --- ConnectFlags ---

impl ConnectFlags {
    /// A session with the server that the flags name. Nothing is sent yet.
    pub(crate) async fn connect(&self, surroundings: &Surroundings) -> Result<Session, Failed> {
        let config = self.config(surroundings).await?;
        let address = config.cluster_url.authority().map(ToString::to_string);
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| {
            Failed::new(format!("the kubeconfig cannot be used: {}", with_causes(&error)))
        })?;
        Ok(Session::new(
            Api::new(client, address.unwrap_or_default()),
            namespace,
        ))
    }

    async fn config(&self, surroundings: &Surroundings) -> Result<Config, Failed> {
        let mut kubeconfig = self.files(surroundings)?;
        let context = self
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone());
        let context = context.unwrap_or_default();
        if let Some(name) = &self.context
            && !kubeconfig.contexts.iter().any(|context| context.name == *name)
        {
            return Err(Failed::new(format!("context {name:?} does not exist")));
        }
        self.overrule(&mut kubeconfig, &context)?;
        let options = KubeConfigOptions {
            context: Some(context),
            ..KubeConfigOptions::default()
        };
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| unusable(&error))
    }

    /// What the files say.
    pub(crate) fn files(&self, surroundings: &Surroundings) -> Result<Kubeconfig, Failed> {
        let read = |path: &Path| {
            Kubeconfig::read_from(path)
                .map_err(|error| Failed::new(format!("{}: {}", path.display(), with_causes(&error))))
        };
        if let Some(file) = &self.kubeconfig {
            return read(file);
        }
        if let Some(folder) = &self.data_dir {
            return read(&folder.join(ADMIN));
        }
        if let Some(file) = &surroundings.preferred_kubeconfig {
            return read(file);
        }
        if env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty()) {
            let merged = Kubeconfig::from_env().map_err(|error| unusable(&error))?;
            return Ok(merged.unwrap_or_default());
        }
        if let Some(file) = &surroundings.configured_kubeconfig {
            return read(file);
        }
        if let Some(own) = own_kubeconfig().filter(|path| path.exists()) {
            return read(&own);
        }
        if surroundings.admin_kubeconfig.exists() {
            return read(&surroundings.admin_kubeconfig);
        }
        if self.server.is_some() {
            return Ok(Kubeconfig::default());
        }
        Err(Failed::new(format!(
            "there is no kubeconfig: neither $KUBECONFIG nor ~/.kube/config nor {}; name one with --kubeconfig, or a server \
             with --server",
            surroundings.admin_kubeconfig.display()
        )))
    }

    /// Puts what the flags say in the place of what the files say.
    fn overrule(&self, kubeconfig: &mut Kubeconfig, context: &str) -> Result<(), Failed> {
        if !kubeconfig.contexts.iter().any(|known| known.name == context) {
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
        let chosen = kubeconfig.contexts.iter().find(|known| known.name == context);
        let chosen = chosen.and_then(|known| known.context.clone()).unwrap_or_default();
        let cluster = place(
            &mut kubeconfig.clusters,
            |known| known.name == chosen.cluster,
            || NamedCluster {
                name: chosen.cluster.clone(),
                ..NamedCluster::default()
            },
        );
        self.overrule_cluster(cluster.cluster.get_or_insert_default());
        let user = chosen.user.unwrap_or_default();
        let user = place(
            &mut kubeconfig.auth_infos,
            |known| known.name == user,
            || NamedAuthInfo {
                name: user.clone(),
                ..NamedAuthInfo::default()
            },
        );
        self.overrule_user(user.auth_info.get_or_insert_default())
    }

    fn overrule_cluster(&self, cluster: &mut Cluster) {
        if let Some(server) = &self.server {
            let is_whole = server.contains("://");
            cluster.server = Some(if is_whole {
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

    fn overrule_user(&self, user: &mut AuthInfo) -> Result<(), Failed> {
        let mut told = Map::new();
        // Whoever shows something of their own shows nothing else beside it: a certificate would win over a token.
        if let Some(token) = &self.token {
            told.insert("token".to_owned(), token.clone().into());
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            told.insert(
                "client-certificate".to_owned(),
                certificate.display().to_string().into(),
            );
            told.insert("client-key".to_owned(), key.display().to_string().into());
        }
        if !told.is_empty() {
            *user = serde_json::from_value(Value::Object(told)).map_err(Failed::new)?;
        }
        if let Some(name) = &self.act_as {
            user.impersonate = Some(name.clone());
        }
        Ok(())
    }
}

/// The admin's kubeconfig in a data folder.
pub(crate) const ADMIN: &str = "admin.kubeconfig";

/// The file that kubectl uses if nobody says otherwise.
pub(crate) fn own_kubeconfig() -> Option<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".kube/config"))
}

fn unusable(error: &KubeconfigError) -> Failed {
    Failed::new(format!("no kubeconfig that can be used: {}", with_causes(error)))
}

/// The item that is meant, made if there is none.
fn place<T>(items: &mut Vec<T>, is_meant: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let at = items.iter().position(is_meant).unwrap_or_else(|| {
        items.push(make());
        items.len() - 1
    });
    &mut items[at]
}
