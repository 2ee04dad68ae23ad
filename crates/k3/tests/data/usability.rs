//! Common problems of operators: closed pipes, misspelt settings, unavailable stores.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use tokio::time::Instant;

use crate::program::{TestDataDir, k3, outcome};

#[test]
fn a_closed_pipe_is_not_an_error() {
    for args in [&["config", "show"][..], &["man"], &["config", "example"]] {
        let mut child = k3(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // `head` may close the pipe before or after the first bytes.
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""), "{args:?}");
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, _, errors) = outcome(k3(&["config", "example"]).stdout(full));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("failed to write to standard output"), "{errors}");
}

#[test]
fn help_is_a_command() {
    let (code, shown, _) = outcome(&mut k3(&["help"]));
    assert!(code == Some(0) && shown.contains("snapshot"), "{shown}");
    let (code, shown, _) = outcome(&mut k3(&["help", "start"]));
    let (_, same, _) = outcome(&mut k3(&["start", "--help"]));
    assert_eq!((code, shown), (Some(0), same));
    let (code, _, errors) = outcome(&mut k3(&["help", "nonsense"]));
    assert_eq!(code, Some(2), "{errors}");
}

#[test]
fn an_invalid_node_name_is_a_usage_error() {
    for name in ["a_b", "-x", "a..b", "x y", &"n".repeat(254)] {
        let (code, _, errors) = outcome(&mut k3(&[
            "start",
            "--storage=memory",
            &format!("--node-name={name}"),
        ]));
        assert_eq!(code, Some(2), "{name}: {errors}");
        assert!(errors.contains("not a valid node name"), "{errors}");
    }
}

#[test]
fn config_check_rejects_what_run_rejects() {
    let data = TestDataDir::new();
    let file = data.path().join("c.yaml");
    for text in [
        "storage: {type: etcd}",
        "storage: {type: mysql, mysql: {max_open_conns: 4, max_idle_conns: 5}}",
        "storage: {type: mysql, mysql: {url: 'postgres://x'}}",
        "auth: {token_file: nowhere.csv}",
        "controllers: {enabled: 'nonsense'}",
        "simulation: {nodes: 1, rules: nowhere.yaml}",
        "node: {name: a_b}",
        "jwt: {signing_key: nowhere.key}",
        "api: {port: [1]}",
    ] {
        fs::write(&file, text).unwrap();
        let (code, output, errors) = outcome(k3(&["config", "check"]).arg(&file));
        assert!(code == Some(2) || code == Some(1), "{text}: {output}{errors}");
        let mut run = k3(&["run", "--config"]);
        let (same, _, errors) = outcome(run.arg(&file).arg("--data-dir").arg(data.path()));
        assert_eq!(same, code, "{text}: {errors}");
    }
    fs::write(&file, "storage: {type: memory}\nnode: {disabled: true}\n").unwrap();
    let (code, output, errors) = outcome(k3(&["config", "check"]).arg(&file));
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("is valid"), "{output}");
}

#[test]
fn a_misspelt_variable_is_a_usage_error() {
    let (code, _, errors) = outcome(k3(&["config", "show"]).env("K3_STROAGE_TYPE", "etcd"));
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("did you mean K3_STORAGE_TYPE?"), "{errors}");
}

#[test]
fn client_commands_find_the_server_of_the_configuration() {
    let data = TestDataDir::new();
    let _server = data.start(&["--storage=memory", "--controllers="]);
    let home = tempfile::tempdir().unwrap();
    let call = || {
        let mut command = k3(&["get", "namespaces", "-o", "name"]);
        command
            .current_dir(home.path())
            .env("HOME", home.path())
            .env_remove("KUBECONFIG");
        command
    };
    let (code, output, errors) = outcome(call().env("K3_DATA_DIR", data.path()));
    assert!(
        code == Some(0) && output.contains("namespace/default"),
        "{errors}"
    );
    let kubeconfig = data.path().join("admin.kubeconfig");
    let (code, _, errors) = outcome(call().env("K3_KUBECONFIG", &kubeconfig));
    assert_eq!(code, Some(0), "{errors}");
    // A kubeconfig of the user's own must not win over the configuration in this directory.
    fs::create_dir(home.path().join(".kube")).unwrap();
    fs::write(home.path().join(".kube/config"), "apiVersion: v1\nkind: Config\n").unwrap();
    let config = format!("data_dir: {}\n", data.path().display());
    fs::write(home.path().join(".config.yaml"), config).unwrap();
    let (code, _, errors) = outcome(&mut call());
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn store_errors_name_address_cause_and_remedy() {
    let data = TestDataDir::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let closed = k3_test_services::free_port().unwrap();
    let start = |args: &[String]| {
        let mut command = k3(&["start", "--no-node", "--controllers=", "--secure-port=0"]);
        let began = Instant::now();
        let (code, _, errors) = outcome(command.args(args).arg("--data-dir").arg(data.path()));
        assert_eq!(code, Some(1), "{args:?}: {errors}");
        for library in [
            "tonic",
            "transport error",
            "sqlx",
            "os error",
            "hyper",
            "error communicating",
        ] {
            assert!(!errors.contains(library), "{library}: {errors}");
        }
        (errors, began.elapsed())
    };
    let etcd = |port: u16| format!("--etcd-servers=http://127.0.0.1:{port}");
    let mysql = |port: u16| format!("--mysql-url=mysql://k3@127.0.0.1:{port}/k3");
    let off = "--database-autostart=false".to_owned();
    for (store, flag_of_store) in [("etcd", etcd(closed)), ("mysql", mysql(closed))] {
        let (errors, _) = start(&[format!("--storage={store}"), flag_of_store, off.clone()]);
        assert!(
            errors.contains(&format!("127.0.0.1:{closed}")) && errors.contains("connection refused"),
            "{errors}"
        );
    }
    // No process accepts: the kernel completes the connection, and no response follows.
    let dial = "--etcd-dial-timeout=1s".to_owned();
    let (errors, took) = start(&["--storage=etcd".to_owned(), etcd(silent_port), dial, off.clone()]);
    assert!(errors.contains(&format!("127.0.0.1:{silent_port}")), "{errors}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    // A start waits for the store for the configured time.
    let wait = "--storage-wait=3s".to_owned();
    let (errors, took) = start(&["--storage=etcd".to_owned(), etcd(closed), wait, off]);
    assert!(errors.contains("waiting for the store"), "{errors}");
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn rejects_a_damaged_store_without_a_panic() {
    let data = TestDataDir::new();
    let flags = ["--controllers="];
    data.start(&flags).end_by(rustix::process::Signal::TERM);
    let file = data.path().join("objects/store.redb");
    let whole = fs::read(&file).unwrap();
    for damage in [
        |bytes: &mut Vec<u8>| bytes[4096..8192].fill(0xff),
        |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2),
        |bytes: &mut Vec<u8>| bytes[..512].fill(0),
    ] {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        let mut out = fs::File::create(&file).unwrap();
        out.write_all(&bytes).unwrap();
        let (code, _, errors) = outcome(&mut data.command(&flags));
        assert_eq!(code, Some(1), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        assert!(errors.contains("error: "), "{errors}");
    }
}
