//! What a start leaves in the data folder, and what the next one does with it.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use rustix::process::Signal;

use crate::program::Data;

const FILES: [&str; 7] = [
    "admin.crt",
    "admin.key",
    "ca.crt",
    "ca.key",
    "server.crt",
    "server.key",
    "service-account.key",
];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn contents(data: &Data) -> BTreeMap<&'static str, Vec<u8>> {
    let folder = data.path().join("tls");
    FILES
        .map(|name| (name, fs::read(folder.join(name)).unwrap()))
        .into()
}

#[test]
fn the_first_start_makes_files_that_are_nobody_elses() {
    let data = Data::new();
    let server = data.start(&[]);
    assert_eq!(mode(&data.path().join("tls")), 0o700);
    for name in FILES {
        assert_eq!(mode(&data.path().join("tls").join(name)), 0o600, "{name}");
    }
    assert_eq!(server.kubeconfig, data.path().join("admin.kubeconfig"));
    assert_eq!(mode(&server.kubeconfig), 0o600);
}

#[test]
fn a_second_start_uses_what_the_first_made() {
    let data = Data::new();
    data.start(&[]).end_by(Signal::TERM);
    let first = contents(&data);
    let _server = data.start(&[]);
    assert_eq!(contents(&data), first);
}

#[test]
fn another_name_makes_another_serving_certificate_and_leaves_the_rest() {
    let data = Data::new();
    data.start(&["--storage=memory"]).end_by(Signal::TERM);
    let first = contents(&data);
    let _server = data.start(&["--storage=memory", "--tls-san", "k3.example.com"]);
    let second = contents(&data);
    let changed: Vec<_> = FILES
        .into_iter()
        .filter(|name| first[name] != second[name])
        .collect();
    assert_eq!(changed, ["server.crt", "server.key"]);
}

#[test]
fn a_kubeconfig_goes_where_it_is_asked_for_and_that_is_what_is_printed() {
    let data = Data::new();
    let out = data.path().join("out.kubeconfig");
    let server = data.start(&["--storage=memory", "--kubeconfig-out", out.to_str().unwrap()]);
    assert_eq!(server.kubeconfig, out);
    assert_eq!(mode(&out), 0o600);
    let own = fs::read(data.path().join("admin.kubeconfig")).unwrap();
    assert_eq!(fs::read(out).unwrap(), own);
}
