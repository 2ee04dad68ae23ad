//! What an older version left behind.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use tempfile::TempDir;

/// The stores of which there are fixtures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FixtureStore {
    File,
    Etcd,
    Mysql,
}

/// What clients of the old cluster hold.
pub(crate) struct OldClients {
    directory: TempDir,
    store_kind: FixtureStore,
}

/// Unpacks one of the archives of commit 6ea0c3a.
pub(crate) fn unpack(archive: &str, into: &Path) {
    let status = Command::new("tar")
        .arg("-C")
        .arg(into)
        .arg("-xzf")
        .arg(path(archive))
        .status()
        .unwrap();
    assert!(status.success());
}

/// Where a fixture of commit 6ea0c3a is.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/upgrades/fixtures/6ea0c3a")
        .join(name)
}

/// Writes the keys of the fixture to an etcd, in the order in which they were written.
pub(crate) fn load_etcd(endpoint: &str) {
    let directory = tempfile::tempdir().unwrap();
    unpack("etcd.tar.gz", directory.path());
    let text = fs::read(directory.path().join("etcd.json")).unwrap();
    let dump: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut pairs: Vec<_> = dump["kvs"].as_array().unwrap().iter().collect();
    pairs.sort_by_key(|pair| pair["mod_revision"].as_str().unwrap().parse::<u64>().unwrap());
    for chunk in pairs.chunks(100) {
        let puts: Vec<_> = chunk
            .iter()
            .map(|pair| serde_json::json!({"requestPut": {"key": pair["key"], "value": pair["value"]}}))
            .collect();
        let body = serde_json::json!({"success": puts}).to_string();
        let mut curl = Command::new("curl")
            .args(["-fsS", "--data-binary", "@-"])
            .arg(format!("{endpoint}/v3/kv/txn"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        curl.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        assert!(curl.wait().unwrap().success());
    }
}

/// Fills a database of a MariaDB with the fixture, and unpacks the data directory beside it. `url` is
/// `mysql://user:password@host:port`.
pub(crate) fn load_mysql(url: &str, database: &str, data_dir: &Path) {
    let directory = tempfile::tempdir().unwrap();
    unpack("mysql.tar.gz", directory.path());
    let (account, address) = url.strip_prefix("mysql://").unwrap().split_once('@').unwrap();
    let (user, password) = account.split_once(':').unwrap();
    let (host, port) = address.trim_end_matches('/').split_once(':').unwrap();
    let client = |input: Stdio, arguments: &[&str]| {
        let status = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp"])
            .args([
                format!("--host={host}"),
                format!("--port={port}"),
                format!("--user={user}"),
            ])
            .args(arguments)
            .env("MYSQL_PWD", password)
            .stdin(input)
            .status()
            .unwrap();
        assert!(status.success());
    };
    client(
        Stdio::null(),
        &[&format!("--execute=CREATE DATABASE `{database}`")],
    );
    let dump = fs::File::open(directory.path().join("mysql.sql")).unwrap();
    client(dump.into(), &[database]);
    let copied = Command::new("cp")
        .arg("-r")
        .arg(directory.path().join("data/."))
        .arg(data_dir)
        .status()
        .unwrap();
    assert!(copied.success());
}

// --- OldClients ---

impl OldClients {
    pub(crate) fn of(store_kind: FixtureStore) -> Self {
        let directory = tempfile::tempdir().unwrap();
        unpack("client.tar.gz", directory.path());
        Self {
            directory,
            store_kind,
        }
    }

    /// The kubeconfig of the administrator, with the port of the old server.
    pub(crate) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::read_from(self.file("kubeconfig")).unwrap()
    }

    /// The token of the service account `robot` in the namespace `app`.
    pub(crate) fn token(&self) -> String {
        self.read("token")
    }

    /// A client certificate of the old authority, and its key, both base64 of PEM as kubeconfigs have them.
    pub(crate) fn certificate(&self) -> (String, String) {
        (
            STANDARD.encode(self.read("crt")),
            STANDARD.encode(self.read("key")),
        )
    }

    /// The pods of the namespace `app`, by name, with their uids and nodes.
    pub(crate) fn pods(&self) -> Vec<(String, String, String)> {
        let list: serde_json::Value = serde_json::from_str(&self.read("pods.json")).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let pods = list["items"].as_array().unwrap().iter();
        pods.map(|pod| {
            let metadata = &pod["metadata"];
            (
                text(&metadata["name"]),
                text(&metadata["uid"]),
                text(&pod["spec"]["nodeName"]),
            )
        })
        .collect()
    }

    fn read(&self, kind: &str) -> String {
        fs::read_to_string(self.file(kind)).unwrap()
    }

    fn file(&self, kind: &str) -> PathBuf {
        let store_kind = match self.store_kind {
            FixtureStore::File => "file",
            FixtureStore::Etcd => "etcd",
            FixtureStore::Mysql => "mysql",
        };
        self.directory.path().join(format!("{store_kind}.{kind}"))
    }
}
