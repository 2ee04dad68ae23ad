//! Checks of certificates and keys.

use std::path::Path;

use kubecontroller::Clock;

use super::check::DoctorCheck;
use crate::certificates::{CertificateInfo, list_certificates};

const CERTIFICATES: &str = "certificates";
/// A running server renews earlier.
const SOON_DAYS: i64 = 30;

pub(super) fn checks(data_dir: &Path) -> Vec<DoctorCheck> {
    let directory = data_dir.join("tls");
    if !directory.is_dir() {
        return vec![DoctorCheck::ok(
            CERTIFICATES,
            "none yet; the first `k3 start` creates them",
        )];
    }
    let infos = match list_certificates(&directory, &Clock::system()) {
        Ok(infos) => infos,
        Err(error) => {
            let advice = "run this as the user of the server; restore the file if it is damaged";
            return vec![DoctorCheck::fail(CERTIFICATES, error.to_string(), advice)];
        }
    };
    let wrong: Vec<_> = infos.iter().filter_map(find_problem).collect();
    if wrong.is_empty() {
        let days = infos
            .iter()
            .filter_map(|infos| infos.days_left)
            .min()
            .unwrap_or_default();
        return vec![DoctorCheck::ok(
            CERTIFICATES,
            format!("valid for at least {days} days"),
        )];
    }
    wrong
}

/// The problem of a certificate, if it has one.
fn find_problem(infos: &CertificateInfo) -> Option<DoctorCheck> {
    if let Some(flaw) = &infos.flaw {
        let found = format!("{} ({}): {flaw}", infos.name, infos.purpose);
        // The authority is never replaced without a request; the rest is renewed at the next start.
        return Some(if infos.name.starts_with("ca") {
            let advice = "restore the file from a backup; without it every kubeconfig and token is invalid";
            DoctorCheck::fail(CERTIFICATES, found, advice)
        } else {
            DoctorCheck::warn(CERTIFICATES, found, "the next start of the server replaces it")
        });
    }
    let days = infos.days_left.filter(|days| *days < SOON_DAYS)?;
    let found = format!("{} expires in {days} days", infos.name);
    Some(DoctorCheck::warn(
        CERTIFICATES,
        found,
        "start the server: it renews the certificate",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::check::CheckStatus, *};
    use crate::certificates::{ServerCertificates, SubjectAltNames};

    #[test]
    fn fails_without_the_key_of_the_authority() {
        let data = tempfile::tempdir().unwrap();
        let tls = data.path().join("tls");
        assert_eq!(checks(data.path())[0].status, CheckStatus::Ok);
        ServerCertificates::ensure(&tls, &SubjectAltNames::new([]), &Clock::system()).unwrap();
        let found = checks(data.path());
        assert!(
            found.len() == 1 && found[0].status == CheckStatus::Ok,
            "{found:?}"
        );
        fs::remove_file(tls.join("server.key")).unwrap();
        assert_eq!(checks(data.path())[0].status, CheckStatus::Warn);
        fs::remove_file(tls.join("ca.key")).unwrap();
        let found = checks(data.path());
        assert!(
            found.iter().any(|check| check.status == CheckStatus::Fail),
            "{found:?}"
        );
    }
}
