//! Certificates and keys from the files in the flags.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use k3_pki::{PemError, read_certificates, read_private_key};
use kubecontroller::Clock;

use crate::{
    certificates::{CertificateAndKey, ServerCertificates, SubjectAltNames},
    command_error::CommandError,
    secret_file,
};

#[derive(Debug, Args)]
#[command(next_help_heading = "Certificates and keys")]
pub(super) struct KeyFlags {
    /// Directory of apiserver.crt and apiserver.key, which are generated if missing; admin.kubeconfig is written there too
    #[arg(long, value_name = "DIR", default_value = "/var/run/kubernetes")]
    pub(super) cert_dir: PathBuf,

    /// Serving certificate in PEM, instead of the one in --cert-dir
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Certificate authorities for client certificates, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
}

// --- KeyFlags ---

impl KeyFlags {
    /// Loads the files and generates what is missing. `names` are the names of a generated serving certificate.
    pub(super) fn certificates(&self, names: &SubjectAltNames) -> Result<ServerCertificates, CommandError> {
        let mut made = ServerCertificates::generate(names, &Clock::system())
            .map_err(|error| certificate_failure(error.into()))?;
        let given = self
            .tls_cert_file
            .as_ref()
            .zip(self.tls_private_key_file.as_ref());
        let (certificate, key) = match given {
            Some((certificate, key)) => (certificate.clone(), key.clone()),
            None => self.own(&made)?,
        };
        made.server = CertificateAndKey {
            certificate: text(&certificate)?,
            key: text(&key)?,
        };
        check_certificates(&certificate, &made.server.certificate)?;
        read_private_key(made.server.key.as_bytes())
            .map_err(|error| unusable(&key, "a key").caused_by(error))?;
        // The serving certificate's authority is unknown here, so clients trust the certificate itself.
        made.authority.clone_from(&made.server.certificate);
        if let Some(file) = &self.client_ca_file {
            let authorities = text(file)?;
            check_certificates(file, &authorities)?;
            // Trust the generated authority too: the admin.kubeconfig uses it.
            made.clients = format!("{authorities}\n{}", made.clients);
        }
        Ok(made)
    }

    /// Returns the files of --cert-dir, generated if missing.
    fn own(&self, made: &ServerCertificates) -> Result<(PathBuf, PathBuf), CommandError> {
        let [certificate, key] = ["apiserver.crt", "apiserver.key"].map(|name| self.cert_dir.join(name));
        if !certificate.exists() {
            secret_file::create_directory(&self.cert_dir)
                .map_err(|error| certificate_failure(error.into()))?;
            // With the authority, so that a reader of the file can verify the certificate.
            let chain = format!("{}{}", made.server.certificate, made.authority);
            for (file, text) in [(&key, &made.server.key), (&certificate, &chain)] {
                secret_file::write(file, text).map_err(|error| certificate_failure(error.into()))?;
            }
        }
        Ok((certificate, key))
    }
}

fn certificate_failure(error: Box<dyn Error + Send + Sync>) -> CommandError {
    let advice = "choose a directory that this user may write to with --cert-dir";
    CommandError::new("no certificate to serve with", advice).caused_by(error)
}

fn unusable(file: &Path, what: &str) -> CommandError {
    CommandError::new(
        format!("cannot use {}", file.display()),
        format!("it must contain {what} in PEM"),
    )
}

fn check_certificates(file: &Path, pem: &str) -> Result<(), CommandError> {
    match read_certificates(pem.as_bytes()) {
        Ok(_) => Ok(()),
        Err(PemError::Missing(_)) => Err(unusable(file, "certificates")),
        Err(error) => Err(unusable(file, "certificates").caused_by(error)),
    }
}

fn text(file: &Path) -> Result<String, CommandError> {
    fs::read_to_string(file).map_err(|error| {
        let advice = "name a file that this user may read";
        CommandError::new(format!("cannot read {}", file.display()), advice).caused_by(error)
    })
}
