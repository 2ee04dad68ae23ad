//! What tests rely on when they ask for a service.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use k3_test_services::{Etcd, EtcdCluster, EtcdOptions, MariaDb, MariaDbOptions, find_program};

/// Marks the process that is the owner to be killed.
const OWNER_DIRECTORY: &str = "K3_TEST_OWNER_DIRECTORY";

#[test]
fn an_etcd_is_ready_when_started_and_keeps_its_data_over_a_kill() {
    let etcd = Etcd::start().unwrap();
    put(&etcd.endpoint(), "a2V5", "dmFsdWU=");
    etcd.kill().unwrap();
    assert!(TcpStream::connect(address(&etcd.endpoint())).is_err());
    etcd.restart().unwrap();
    assert!(get(&etcd.endpoint(), "a2V5").contains("dmFsdWU="));
}

#[test]
fn a_paused_etcd_answers_only_after_it_is_resumed() {
    let etcd = Etcd::start().unwrap();
    etcd.pause().unwrap();
    let mut stream = TcpStream::connect(address(&etcd.endpoint())).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(stream.read(&mut [0; 1]).is_err());
    etcd.resume().unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"health\":\"true\""), "{answer}");
}

#[test]
fn extra_arguments_reach_etcd() {
    let options = EtcdOptions {
        args: vec!["--max-request-bytes=2000".into()],
        ..EtcdOptions::default()
    };
    let etcd = Etcd::start_with(&options).unwrap();
    let answer = put(&etcd.endpoint(), "a2V5", &"dmFs".repeat(1_000));
    assert!(answer.contains("too large"), "{answer}");
}

#[test]
fn an_argument_that_etcd_refuses_is_an_error_with_its_log() {
    let options = EtcdOptions {
        args: vec!["--no-such-flag".into()],
        ..EtcdOptions::default()
    };
    let error = Etcd::start_with(&options).err().unwrap().to_string();
    assert!(error.contains("no-such-flag"), "{error}");
}

#[test]
fn a_cluster_serves_while_one_member_of_three_is_dead() {
    let cluster = EtcdCluster::start(3).unwrap();
    let endpoints = cluster.endpoints();
    cluster.members()[0].kill().unwrap();
    // Refused while the two elect a new leader, for a second or so.
    eventually(|| put(&endpoints[1], "a2V5", "dmFsdWU=").contains("revision"));
    eventually(|| get(&endpoints[2], "a2V5").contains("dmFsdWU="));
    cluster.members()[0].restart().unwrap();
    eventually(|| get(&endpoints[0], "a2V5").contains("dmFsdWU="));
}

#[test]
fn a_mariadb_is_ready_when_started_and_keeps_its_data_over_a_kill() {
    let mariadb = MariaDb::start().unwrap();
    query(
        &mariadb.url(),
        "CREATE DATABASE kept; CREATE TABLE kept.t (n INT); INSERT INTO kept.t VALUES (4711)",
    );
    mariadb.kill().unwrap();
    assert!(TcpStream::connect(address(&mariadb.url())).is_err());
    mariadb.restart().unwrap();
    assert_eq!(query(&mariadb.url(), "SELECT n FROM kept.t"), "4711\n");
    mariadb.pause().unwrap();
    mariadb.resume().unwrap();
    assert_eq!(query(&mariadb.url(), "SELECT n FROM kept.t"), "4711\n");
}

#[test]
fn extra_arguments_reach_mariadb() {
    let options = MariaDbOptions {
        args: vec!["--max-connections=23".into()],
        ..MariaDbOptions::default()
    };
    let mariadb = MariaDb::start_with(&options).unwrap();
    assert_eq!(query(&mariadb.url(), "SELECT @@max_connections"), "23\n");
}

#[test]
fn a_dropped_service_leaves_neither_process_nor_directory() {
    let parent = env::temp_dir().join(format!("k3-test-drop-{}", std::process::id()));
    let options = EtcdOptions {
        parent: Some(parent.clone()),
        ..EtcdOptions::default()
    };
    let etcd = Etcd::start_with(&options).unwrap();
    let pid = etcd.pid().unwrap();
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
    drop(etcd);
    assert!(!is_running(pid));
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    fs::remove_dir(&parent).unwrap();
}

/// The story: a test is killed with SIGKILL by its runner's time-out, and cannot clean up. The owner that
/// is killed here is this test once more, in a process of its own.
#[test]
fn a_killed_owner_leaves_neither_process_nor_directory() {
    if let Some(parent) = env::var_os(OWNER_DIRECTORY) {
        own_until_killed(parent.into());
    }
    let parent = env::temp_dir().join(format!("k3-test-killed-{}", std::process::id()));
    let mut owner = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "a_killed_owner_leaves_neither_process_nor_directory",
            "--nocapture",
        ])
        .env(OWNER_DIRECTORY, &parent)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let pid: u32 = lines
        .find_map(|line| line.unwrap().split_once("service=")?.1.parse().ok())
        .expect("the owner prints its service's process id");
    assert!(is_running(pid));
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually(|| !is_running(pid) && fs::read_dir(&parent).unwrap().count() == 0);
    fs::remove_dir(&parent).unwrap();
}

fn own_until_killed(parent: PathBuf) -> ! {
    let options = EtcdOptions {
        parent: Some(parent),
        ..EtcdOptions::default()
    };
    let etcd = Etcd::start_with(&options).unwrap();
    println!("service={}", etcd.pid().unwrap());
    loop {
        std::thread::park();
    }
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the end of another process is seen only by looking"
)]
fn eventually(condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "the condition was not reached"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn address(url: &str) -> String {
    let rest = url.split_once("://").expect("a URL has a scheme").1;
    rest.rsplit_once('@')
        .map_or(rest, |(_, address)| address)
        .to_owned()
}

fn put(endpoint: &str, key: &str, value: &str) -> String {
    post(
        endpoint,
        "/v3/kv/put",
        &format!(r#"{{"key":"{key}","value":"{value}"}}"#),
    )
}

fn get(endpoint: &str, key: &str) -> String {
    post(endpoint, "/v3/kv/range", &format!(r#"{{"key":"{key}"}}"#))
}

fn post(endpoint: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address(endpoint)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn query(url: &str, sql: &str) -> String {
    let (login, address) = url
        .strip_prefix("mysql://")
        .unwrap()
        .split_once('@')
        .expect("the URL names a user");
    let (user, password) = login.split_once(':').expect("the URL has a password");
    assert!(!password.is_empty());
    let port = address.rsplit_once(':').unwrap().1;
    let output = Command::new(find_program("mariadb").unwrap())
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--skip-column-names",
            "--batch",
        ])
        .args([
            format!("--port={port}"),
            format!("--user={user}"),
            format!("--execute={sql}"),
        ])
        .env("MYSQL_PWD", password)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
