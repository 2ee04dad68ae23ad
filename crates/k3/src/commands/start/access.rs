//! Flags of authentication and admission.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgAction, Args, ValueEnum};
use k3_apiserver::{Anonymous, Authentication, KubectlRule, PublicKey, TokenFile};
use k3_pki::{Certificate, KeyPair, find_certificates, is_pem, read_public_keys};

use crate::{command_error::CommandError, duration, secret::SecretString, server::ISSUER};

#[derive(Debug, Args)]
#[command(next_help_heading = "Authentication and admission")]
pub(crate) struct AccessFlags {
    /// Also write the admin's kubeconfig (mode 0600) to this file
    #[arg(long, value_name = "FILE")]
    pub(in crate::commands) kubeconfig_out: Option<PathBuf>,

    /// Static token file with lines `token,user,uid` or `token,user,uid,"group1,group2"`
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Allow requests without credentials, as user system:anonymous in group system:unauthenticated.
    /// Otherwise they get only /healthz, /livez and /readyz, and 401 elsewhere
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    anonymous_auth: bool,

    /// Treat requests from this machine without credentials as user k3:localhost in group system:masters. Any
    /// program of any user of this machine then controls the cluster. Requests through a proxy or from a web page
    /// are excluded
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    authn_allow_localhost: bool,

    /// Allow PUT of an object to change its status as well, which otherwise needs the status subresource. For
    /// debugging: clients that write back what they read overwrite the work of controllers
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub(in crate::commands) unrestricted_update: bool,

    #[command(flatten)]
    kubectl: KubectlFlags,

    /// Issuer URL of service account tokens. If repeated or comma-separated, the first one
    /// issues, and tokens of the others are accepted too
    #[arg(long, value_name = "URL", value_delimiter = ',', default_value = ISSUER, value_parser = parse_issuer)]
    service_account_issuer: Vec<String>,

    /// Additional keys that verify service account tokens: a file with public or private keys or certificates in PEM, such as
    /// the service-account.key of an earlier data directory; may be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,

    /// Key that signs service account tokens: a file, or the text itself, with an ECDSA P-256 private key in PEM.
    /// Servers that share a store need the same [default: generated in the data directory]
    #[arg(long, alias = "service-account-signing-key-file", value_name = "KEY")]
    jwt_signing_key: Option<SecretString>,

    /// Accepted audiences of service account tokens, comma-separated [default: the issuers]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    api_audiences: Vec<String>,

    /// Additional admission plugins to enable; may be repeated or comma-separated
    #[arg(long, value_enum, value_name = "PLUGIN", value_delimiter = ',')]
    enable_admission_plugins: Vec<OptionalAdmissionPlugin>,
}

/// An admission plugin that is off by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptionalAdmissionPlugin {
    /// Setting an owner reference needs permission to delete the object; blockOwnerDeletion needs permission to set the owner's finalizers
    #[value(name = "OwnerReferencesPermissionEnforcement")]
    OwnerReferencesPermissionEnforcement,
}

/// kubectl is recognized by its User-Agent header, which a client can change: these flags are no security boundary.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the names are those of the flags")]
pub(crate) struct KubectlFlags {
    /// Reject kubectl, recognized by its User-Agent
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    kubectl_disabled: bool,

    /// Reject tokens of kubectl that live longer than --kubectl-ephemeral-token-duration, such as static ones;
    /// `k3 token create` creates short ones. Client certificates are not affected
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    kubectl_ephemeral_token: bool,

    /// Maximum remaining lifetime of a kubectl token
    #[arg(
        long, alias = "kubectl-ephemeral-duration", value_name = "TIME", default_value = "1h",
        value_parser = duration::parse_whole_seconds
    )]
    kubectl_ephemeral_token_duration: Duration,
}

// --- OptionalAdmissionPlugin ---

impl OptionalAdmissionPlugin {
    pub(in crate::commands) fn is_known(name: &str) -> bool {
        Self::from_str(name, false).is_ok()
    }
}

// --- AccessFlags ---

impl AccessFlags {
    /// Authentication settings. Reads the files that the flags name.
    pub(in crate::commands) fn authentication(&self) -> Result<Authentication, CommandError> {
        let tokens = match &self.token_auth_file {
            Some(file) => TokenFile::read(file).map_err(|error| {
                CommandError::new(
                    "cannot use --token-auth-file",
                    "each line is `token,user,uid` or `token,user,uid,\"group1,group2\"`",
                )
                .caused_by(error)
            })?,
            None => TokenFile::default(),
        };
        let mut more_keys = Vec::new();
        for file in &self.service_account_key_file {
            more_keys.extend(public_keys(file)?);
        }
        Ok(Authentication {
            tokens,
            anonymous: if self.anonymous_auth {
                Anonymous::Anything
            } else {
                Anonymous::Health
            },
            certificates: None,
            more_issuers: self.service_account_issuer.iter().skip(1).cloned().collect(),
            more_keys,
            audiences: self.api_audiences.clone(),
            localhost: self.authn_allow_localhost,
            kubectl: self.kubectl.rule(),
        })
    }

    pub(in crate::commands) fn guards_owners(&self) -> bool {
        self.enable_admission_plugins
            .contains(&OptionalAdmissionPlugin::OwnerReferencesPermissionEnforcement)
    }

    /// The configured signing key, PKCS#8 DER.
    pub(in crate::commands) fn signing_key(&self) -> Result<Option<Vec<u8>>, CommandError> {
        let Some(named) = &self.jwt_signing_key else {
            return Ok(None);
        };
        let unusable = |why: &str| {
            let advice = "create one with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out tokens.key\n\
                          and name that file";
            CommandError::usage(format!("cannot use --jwt-signing-key: {why}"), advice)
        };
        let pem = if is_pem(named.text()) {
            named.text().to_owned()
        } else {
            // The value may be the key itself instead of a path, so it is not repeated.
            fs::read_to_string(named.text())
                .map_err(|error| unusable("cannot read the file").caused_by(error))?
        };
        let pair = KeyPair::from_pem(&pem)
            .map_err(|error| unusable("it contains no private key (PKCS#8) in PEM").caused_by(error))?;
        if !pair.is_p256() {
            return Err(unusable("it is not an ECDSA P-256 key"));
        }
        Ok(Some(pair.to_pkcs8()))
    }

    pub(in crate::commands) fn issuer(&self) -> String {
        self.service_account_issuer
            .first()
            .map_or_else(|| ISSUER.to_owned(), Clone::clone)
    }
}

// --- KubectlFlags ---

impl KubectlFlags {
    fn rule(&self) -> KubectlRule {
        if self.kubectl_disabled {
            KubectlRule::Nothing
        } else if self.kubectl_ephemeral_token {
            KubectlRule::ShortTokens(self.kubectl_ephemeral_token_duration)
        } else {
            KubectlRule::Anything
        }
    }
}

/// All keys in a file.
fn public_keys(file: &Path) -> Result<Vec<PublicKey>, CommandError> {
    let advice = "name a file with keys of ECDSA P-256, ECDSA P-384 or RSA in PEM: `PUBLIC KEY`, `PRIVATE KEY` or `CERTIFICATE`";
    let what = || format!("cannot use --service-account-key-file {}", file.display());
    let text =
        fs::read_to_string(file).map_err(|error| CommandError::new(what(), advice).caused_by(error))?;
    let unusable = |error: Box<dyn Error + Send + Sync>| CommandError::new(what(), advice).caused_by(error);
    let mut keys = read_public_keys(text.as_bytes()).map_err(|error| unusable(error.into()))?;
    for certificate in find_certificates(text.as_bytes()) {
        let read = Certificate::from_der(&certificate).map_err(|error| unusable(error.into()))?;
        keys.push(read.public_key);
    }
    if keys.is_empty() {
        let pair = KeyPair::from_pem(&text).map_err(|error| unusable(error.into()))?;
        keys.push(pair.public_key().map_err(|error| unusable(error.into()))?);
    }
    keys.into_iter()
        .map(|key| PublicKey::new(key).map_err(|error| unusable(error.into())))
        .collect()
}

fn parse_issuer(text: &str) -> Result<String, &'static str> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        _ => Err("not a URL such as https://kubernetes.default.svc"),
    }
}
