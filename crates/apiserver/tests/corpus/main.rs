//! The corpus: requests and the answers that Kubernetes gives to them, in `testing/corpus`. Each topic is a file there and a test
//! here, played against a server of its own. `testing/corpus/README.md` has the format.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod expectation;
mod player;
mod script;
mod server;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Makes a test of each topic, and the list of all of them.
macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        $(
            #[test]
            fn $topic() {
                crate::player::play_file(&crate::directory().join(concat!(stringify!($topic), ".http")));
            }
        )*

        const TOPICS: &[&str] = &[$(stringify!($topic)),*];
    };
}

topics![
    admission,
    apiservices,
    apply,
    config,
    crds,
    deletion,
    discovery,
    events,
    fields,
    groups,
    lists,
    metadata,
    namespaces,
    negotiation,
    patch,
    pods,
    quotas,
    rbac,
    serviceaccounts,
    services,
    storage,
    watch,
    workloads,
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/corpus")
}

#[test]
fn every_file_of_the_corpus_is_played() {
    let files: BTreeSet<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".http").map(str::to_owned))
        .collect();
    let topics: BTreeSet<_> = TOPICS.iter().map(|topic| (*topic).to_owned()).collect();
    assert_eq!(files, topics, "files of testing/corpus, and topics in this file");
}
