//! Certificates and keys out of the files that flags name.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use k3_pki::{PemError, read_certificates, read_private_key};
use k3_storage::SystemClock;

use crate::{
    certificates::{Certificates, Identity, Names},
    failure::Failure,
    secret_file,
};

#[derive(Debug, Args)]
#[command(next_help_heading = "Certificates and keys")]
pub(super) struct KeyFlags {
    /// Directory of the serving certificate and its key, apiserver.crt and apiserver.key, which are made if they are not there; an
    /// admin.kubeconfig is left there too
    #[arg(long, value_name = "DIR", default_value = "/var/run/kubernetes")]
    pub(super) cert_dir: PathBuf,

    /// The serving certificate, in PEM, in the place of the one in --cert-dir
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// The authorities whose certificates users show, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
}

// --- KeyFlags ---

impl KeyFlags {
    /// What the files hold; what they do not hold is made up. The server is known by `names` where its certificate is made.
    pub(super) fn certificates(&self, names: &Names) -> Result<Certificates, Failure> {
        let mut made =
            Certificates::generate(names, &SystemClock).map_err(|error| certificate_failure(error.into()))?;
        let given = self
            .tls_cert_file
            .as_ref()
            .zip(self.tls_private_key_file.as_ref());
        let (certificate, key) = match given {
            Some((certificate, key)) => (certificate.clone(), key.clone()),
            None => self.own(&made)?,
        };
        made.server = Identity {
            certificate: text(&certificate)?,
            key: text(&key)?,
        };
        check_certificates(&certificate, &made.server.certificate)?;
        read_private_key(made.server.key.as_bytes())
            .map_err(|error| unusable(&key, "a key").caused_by(error))?;
        // Clients trust at least the serving certificate: its authority is unknown here.
        made.authority.clone_from(&made.server.certificate);
        if let Some(file) = &self.client_ca_file {
            let authorities = text(file)?;
            check_certificates(file, &authorities)?;
            // And the one that was made up, for the admin.kubeconfig.
            made.clients = format!("{authorities}\n{}", made.clients);
        }
        Ok(made)
    }

    /// The files of the directory, made if need be.
    fn own(&self, made: &Certificates) -> Result<(PathBuf, PathBuf), Failure> {
        let [certificate, key] = ["apiserver.crt", "apiserver.key"].map(|name| self.cert_dir.join(name));
        if !certificate.exists() {
            secret_file::create_directory(&self.cert_dir)
                .map_err(|error| certificate_failure(error.into()))?;
            // With the authority, so that who reads the file knows whom to believe.
            let chain = format!("{}{}", made.server.certificate, made.authority);
            for (file, text) in [(&key, &made.server.key), (&certificate, &chain)] {
                secret_file::write(file, text).map_err(|error| certificate_failure(error.into()))?;
            }
        }
        Ok((certificate, key))
    }
}

fn certificate_failure(error: Box<dyn Error + Send + Sync>) -> Failure {
    let advice = "choose a directory that this user may write to with --cert-dir";
    Failure::new("no certificate to serve with", advice).caused_by(error)
}

fn unusable(file: &Path, what: &str) -> Failure {
    Failure::new(
        format!("cannot use {}", file.display()),
        format!("it is to hold {what} in PEM"),
    )
}

fn check_certificates(file: &Path, pem: &str) -> Result<(), Failure> {
    match read_certificates(pem.as_bytes()) {
        Ok(_) => Ok(()),
        Err(PemError::Missing(_)) => Err(unusable(file, "certificates")),
        Err(error) => Err(unusable(file, "certificates").caused_by(error)),
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        let advice = "name a file that this user may read";
        Failure::new(format!("cannot read {}", file.display()), advice).caused_by(error)
    })
}
