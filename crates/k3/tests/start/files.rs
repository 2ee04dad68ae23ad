//! What a start leaves in the data directory, and what the next one does with it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::program::{TestDataDir, k3, outcome};

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

fn contents(data: &TestDataDir) -> BTreeMap<&'static str, Vec<u8>> {
    let directory = data.path().join("tls");
    FILES
        .map(|name| (name, fs::read(directory.join(name)).unwrap()))
        .into()
}

#[test]
fn the_first_start_creates_private_files() {
    let data = TestDataDir::new();
    let server = data.start(&[]);
    assert_eq!(mode(&data.path().join("tls")), 0o700);
    for name in FILES {
        assert_eq!(mode(&data.path().join("tls").join(name)), 0o600, "{name}");
    }
    assert_eq!(server.kubeconfig, data.path().join("admin.kubeconfig"));
    assert_eq!(mode(&server.kubeconfig), 0o600);
}

#[test]
fn a_second_start_reuses_the_files() {
    let data = TestDataDir::new();
    data.start(&[]).end_by(Signal::TERM);
    let first = contents(&data);
    let _server = data.start(&[]);
    assert_eq!(contents(&data), first);
}

#[test]
fn a_new_name_replaces_only_the_serving_certificate() {
    let data = TestDataDir::new();
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
fn writes_and_prints_the_requested_kubeconfig() {
    let data = TestDataDir::new();
    let out = data.path().join("out.kubeconfig");
    let server = data.start(&["--storage=memory", "--kubeconfig-out", out.to_str().unwrap()]);
    assert_eq!(server.kubeconfig, out);
    assert_eq!(mode(&out), 0o600);
    let own = fs::read(data.path().join("admin.kubeconfig")).unwrap();
    assert_eq!(fs::read(out).unwrap(), own);
}

/// The same command under a umask.
fn under_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null());
    shell
}

/// Every file below a directory has mode 0600, every directory 0700.
fn assert_private(directory: &Path) {
    assert_eq!(mode(directory), 0o700, "{}", directory.display());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_private(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}

#[test]
fn files_are_private_under_any_umask() {
    for umask in ["0000", "0022", "0777"] {
        let data = TestDataDir::new();
        let outside = tempfile::tempdir().unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = |name: &str| outside.path().join(name).display().to_string();
        let policy = outside.path().join("policy.yaml");
        fs::write(
            &policy,
            "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Metadata}]\n",
        )
        .unwrap();
        let command = data.command(&[
            "--audit-policy-file",
            policy.to_str().unwrap(),
            "--file-rootpath",
            &path("a/objects"),
            "--audit-log-path",
            &path("audit/audit.log"),
            "--kubeconfig-out",
            &path("admin.kubeconfig"),
        ]);
        data.serve(under_umask(umask, &command)).end_by(Signal::TERM);
        assert_private(&outside.path().join("a"));
        assert_private(&outside.path().join("audit"));
        assert_private(&data.path().join("tls"));
        for file in [
            data.path().join("admin.kubeconfig"),
            path("admin.kubeconfig").into(),
        ] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        assert_eq!(mode(outside.path()), 0o755, "{umask}");
        let snapshot = outside.path().join("snapshot");
        let mut save = k3(&[
            "snapshot",
            "save",
            "--file-rootpath",
            &path("a/objects"),
            "--data-dir",
        ]);
        save.arg(data.path()).arg(&snapshot);
        let (code, _, errors) = outcome(&mut under_umask(umask, &save));
        assert_eq!(code, Some(0), "{errors}");
        assert_eq!(mode(&snapshot), 0o600);
    }
}

#[test]
fn restricts_wider_modes_with_a_warning() {
    let data = TestDataDir::new();
    let objects = tempfile::tempdir().unwrap();
    let root = objects.path().join("objects");
    let arguments = ["--file-rootpath", root.to_str().unwrap()];
    data.start(&arguments).end_by(Signal::TERM);
    let store = root.join("store.redb");
    let key = data.path().join("tls/ca.key");
    for (path, wide) in [
        (&root, 0o755),
        (&store, 0o644),
        (&key, 0o644),
        (&data.path().join("tls"), 0o755),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(wide)).unwrap();
    }
    data.start(&arguments).end_by(Signal::TERM);
    assert_private(&root);
    assert_private(&data.path().join("tls"));
    let log = data.log();
    for path in [&store, &key] {
        let line = log.lines().find(|line| line.contains(path.to_str().unwrap()));
        assert!(
            line.is_some_and(|line| line.contains("changed the mode")),
            "{log}"
        );
    }
}

#[test]
fn keeps_modes_of_shared_directories() {
    let shared = tempfile::tempdir().unwrap();
    fs::write(shared.path().join("passwd"), "").unwrap();
    for wide in [0o755, 0o1777] {
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(wide)).unwrap();
        let path = shared.path().to_str().unwrap();
        let data = TestDataDir::new();
        let mut command = k3(&["start", "--secure-port=0", "--no-node", "--data-dir", path]);
        command.args(["--file-rootpath", path]);
        data.serve(command).end_by(Signal::TERM);
        let kept = fs::metadata(shared.path()).unwrap().permissions().mode() & 0o7777;
        assert_eq!(kept, wide);
        assert_eq!(mode(&shared.path().join("store.redb")), 0o600);
        assert_eq!(mode(&shared.path().join("lock")), 0o600);
        assert_private(&shared.path().join("tls"));
    }
}
