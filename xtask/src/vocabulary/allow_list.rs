//! The exceptions to the vocabulary. A word stays where it is the ecosystem's own term for exactly that concept.

use std::collections::BTreeSet;

/// One exception.
pub(crate) struct AllowEntry {
    /// The start of a path from the root of the workspace.
    pub(crate) path: &'static str,
    pub(crate) word: &'static str,
    pub(crate) reason: &'static str,
}

const fn allow(path: &'static str, word: &'static str, reason: &'static str) -> AllowEntry {
    AllowEntry { path, word, reason }
}

/// Every exception. `cargo xtask tidy` refuses entries that no file needs.
pub(crate) const ALLOWED: &[AllowEntry] = &[
    allow(
        "docs/clusters.md",
        "keeper",
        "persistent file names keeper.pid and keeper.log",
    ),
    allow(
        "crates/k3/src/commands/cluster/directory.rs",
        "keeper",
        "persistent file names keeper.pid and keeper.log",
    ),
    allow(
        "crates/k3/src/commands/cluster/directory.rs",
        "folder",
        "a field of the persisted marker file",
    ),
    allow(
        "crates/k3/src/commands/doctor/",
        "verdict",
        "a field of the JSON output of k3 doctor",
    ),
    allow(
        "crates/k3/tests/data/doctor.rs",
        "verdict",
        "a field of the JSON output of k3 doctor",
    ),
    allow(
        "crates/storage/src/etcd/failure.rs",
        "calm",
        "the message of the h2 crate for ENHANCE_YOUR_CALM",
    ),
    allow(
        "testing/services/src/runtime/image.rs",
        "nobody",
        "the user nobody of Unix systems",
    ),
    allow(
        "crates/api/src/status/",
        "gone",
        "the reason Gone of HTTP status 410",
    ),
    allow(
        "crates/kubecontroller/src/informer/api_list_watch.rs",
        "gone",
        "HTTP status 410 Gone",
    ),
    allow(
        "crates/kubecontroller/src/workqueue/",
        "wake",
        "the method of std::task::Waker",
    ),
    allow(
        "crates/apiserver/src/http/gzip.rs",
        "wake",
        "the method of std::task::Waker",
    ),
    allow(
        "crates/apiserver/src/registry/list.rs",
        "wake",
        "the method of std::task::Waker",
    ),
    allow(
        "crates/apiserver/src/cache/",
        "wake",
        "the methods of std::task::Wake and Waker",
    ),
    allow(
        "crates/apiserver/src/pipeline/work_pool.rs",
        "wake",
        "the method of std::task::Wake",
    ),
    allow(
        "crates/apiserver/src/pipeline/inflight.rs",
        "seat",
        "priority and fairness counts seats",
    ),
    allow(
        "crates/apiserver/src/allocation/",
        "family",
        "IP families of Services",
    ),
    allow(
        "crates/apiserver/src/endpoint_reconciler.rs",
        "family",
        "IP families of addresses",
    ),
    allow(
        "crates/apiserver/src/metrics/",
        "family",
        "metric families of Prometheus",
    ),
    allow(
        "crates/kubecontroller/src/metrics/",
        "family",
        "metric families of Prometheus",
    ),
    allow("crates/metrics/", "family", "metric families of Prometheus"),
    allow(
        "crates/api/src/bootstrap/cluster.rs",
        "family",
        "IP families of Services",
    ),
    allow(
        "crates/api/src/kinds/core/",
        "family",
        "IP families of Services and pod addresses",
    ),
    allow(
        "crates/api/src/kinds/networking/service_cidr.rs",
        "family",
        "IP families of CIDRs",
    ),
    allow(
        "crates/controllers/src/cronjob/controller.rs",
        "went",
        "upstream's event message of a missing job",
    ),
];

/// Returns the number of the entry that allows `word` in the file `name`.
pub(crate) fn find(entries: &[AllowEntry], name: &str, word: &str) -> Option<usize> {
    entries
        .iter()
        .position(|entry| entry.word == word && name.starts_with(entry.path))
}

pub(crate) fn unused(entries: &[AllowEntry], used: &BTreeSet<usize>) -> impl Iterator<Item = String> {
    entries
        .iter()
        .enumerate()
        .filter(|(number, _)| !used.contains(number))
        .map(|(_, entry)| format!("{} {} ({})", entry.path, entry.word, entry.reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{RULES, type_names::TYPE_NAMES};

    const ENTRIES: &[AllowEntry] = &[allow("crates/a/", "verdict", "nf_tables has verdicts")];

    #[test]
    fn an_exception_covers_its_path_and_word() {
        assert_eq!(find(ENTRIES, "crates/a/src/b.rs", "verdict"), Some(0));
        assert_eq!(find(ENTRIES, "crates/b/src/b.rs", "verdict"), None);
        assert_eq!(find(ENTRIES, "crates/a/src/b.rs", "told"), None);
    }

    #[test]
    fn an_exception_that_no_file_needs_is_found() {
        assert_eq!(unused(ENTRIES, &BTreeSet::new()).count(), 1);
        assert_eq!(unused(ENTRIES, &BTreeSet::from([0])).count(), 0);
    }

    #[test]
    fn every_exception_has_a_reason_and_names_a_retired_word() {
        for entry in ALLOWED {
            assert!(
                entry.reason.split(' ').count() > 2,
                "{} {}",
                entry.path,
                entry.word
            );
            let is_retired =
                RULES.iter().any(|rule| rule.phrase == entry.word) || TYPE_NAMES.contains(&entry.word);
            assert!(is_retired, "`{}` is not retired", entry.word);
        }
    }
}
