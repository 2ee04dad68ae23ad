//! The certificates and keys in the data folder.

use std::path::Path;

use k3_storage::SystemClock;

use super::check::Check;
use crate::certificates::{Held, survey};

const CERTIFICATES: &str = "certificates";
/// A server that runs renews long before.
const SOON_DAYS: i64 = 30;

pub(super) fn checks(data_dir: &Path) -> Vec<Check> {
    let folder = data_dir.join("tls");
    if !folder.is_dir() {
        return vec![Check::ok(
            CERTIFICATES,
            "none yet; the first `k3 start` makes them",
        )];
    }
    let held = match survey(&folder, &SystemClock) {
        Ok(held) => held,
        Err(error) => {
            let advice = "ask as the user who runs the server; restore the file if it is damaged";
            return vec![Check::fail(CERTIFICATES, error.to_string(), advice)];
        }
    };
    let wrong: Vec<_> = held.iter().filter_map(judged).collect();
    if wrong.is_empty() {
        let days = held
            .iter()
            .filter_map(|held| held.days_left)
            .min()
            .unwrap_or_default();
        return vec![Check::ok(
            CERTIFICATES,
            format!("all good, for {days} days and more"),
        )];
    }
    wrong
}

/// What is wrong with one, if something is.
fn judged(held: &Held) -> Option<Check> {
    if let Some(flaw) = &held.flaw {
        let found = format!("{} ({}): {flaw}", held.name, held.purpose);
        // Of the authority nothing is made anew unasked; all else the next start makes.
        return Some(if held.name.starts_with("ca") {
            let advice = "restore the file from a copy; without it every kubeconfig and token is worthless";
            Check::fail(CERTIFICATES, found, advice)
        } else {
            Check::warn(
                CERTIFICATES,
                found,
                "the next start of the server makes another one",
            )
        });
    }
    let days = held.days_left.filter(|days| *days < SOON_DAYS)?;
    let found = format!("{} ends in {days} days", held.name);
    Some(Check::warn(
        CERTIFICATES,
        found,
        "a server that runs renews it by itself: start it",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::check::Verdict, *};
    use crate::certificates::{Certificates, Names};

    #[test]
    fn good_ones_are_well_and_a_lost_key_of_the_authority_fails() {
        let data = tempfile::tempdir().unwrap();
        let tls = data.path().join("tls");
        assert_eq!(checks(data.path())[0].verdict, Verdict::Ok);
        Certificates::ensure(&tls, &Names::new([]), &SystemClock).unwrap();
        let found = checks(data.path());
        assert!(found.len() == 1 && found[0].verdict == Verdict::Ok, "{found:?}");
        fs::remove_file(tls.join("server.key")).unwrap();
        assert_eq!(checks(data.path())[0].verdict, Verdict::Warn);
        fs::remove_file(tls.join("ca.key")).unwrap();
        let found = checks(data.path());
        assert!(
            found.iter().any(|check| check.verdict == Verdict::Fail),
            "{found:?}"
        );
    }
}
