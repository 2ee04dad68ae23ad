//! The configuration as a user meets it: which file counts, what is said of a wrong one, and what it changes.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;

use std::{
    fs,
    process::{Command, Stdio},
};

use k8s_openapi::api::authentication::v1::TokenRequest;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use program::{TestDataDir, k3, outcome};
use rcgen::KeyPair;

/// A free port outside the ephemeral range.
fn free_port() -> u16 {
    k3_test_services::free_port().unwrap()
}

/// `k3 start` in the data directory, configured only by files.
fn start_in(data: &TestDataDir, args: &[&str]) -> Command {
    let mut command = k3(&["start"]);
    command.args(args).current_dir(data.path());
    command
}

fn write(data: &TestDataDir, name: &str, text: &str) {
    let path = data.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A minimal configuration of a server without node and controllers.
fn minimal_config(port: u16) -> String {
    format!(
        "data_dir: .\nkubeconfig_out: out.kubeconfig\napi: {{port: {port}}}\nstorage: {{type: memory}}\n\
         controllers: {{enabled: ''}}\nnode: {{disabled: true}}\n"
    )
}

#[test]
fn uses_the_first_of_four_configuration_paths() {
    let data = TestDataDir::new();
    let paths = ["a.yaml", "b.yaml", ".config.yaml", "configs/config-example.yaml"];
    let ports = paths.map(|path| {
        let port = free_port();
        write(&data, path, &minimal_config(port));
        port
    });
    let by_flag = start_in(&data, &["--config", "a.yaml"]);
    let mut by_variable = start_in(&data, &[]);
    by_variable.env("CONFIG_PATH", "b.yaml");
    // The flag overrides the variable, and the variable overrides the directory.
    let mut command = by_flag;
    command.env("CONFIG_PATH", "b.yaml");
    assert_eq!(data.serve(command).port(), ports[0]);
    assert_eq!(data.serve(by_variable).port(), ports[1]);
    assert_eq!(data.serve(start_in(&data, &[])).port(), ports[2]);
    fs::remove_file(data.path().join(".config.yaml")).unwrap();
    assert_eq!(data.serve(start_in(&data, &[])).port(), ports[3]);
}

#[test]
fn an_invalid_file_exits_with_2_and_names_the_line() {
    let data = TestDataDir::new();
    for (text, expected) in [
        (
            "storage:\n  type: x\n",
            "c.yaml:2: storage.type: \"x\" is not one of",
        ),
        ("log: {level: loud}\n", "c.yaml:1: log.level"),
        ("\nrole: bad\n", "c.yaml:2: role: \"bad\""),
        (
            "wbe: {port: 1}\n",
            "c.yaml:1: wbe.port: no such key; did you mean web.port?",
        ),
        ("web: {port: 1}\nweb: {port: 2}\n", "c.yaml:2"),
        (
            "storage:\n  type: mysql\n  mysql: {max_open_conns: 4, max_idle_conns: 5}\n",
            "--mysql-max-open-conns comes from c.yaml:3: storage.mysql.max_open_conns",
        ),
        (
            "storage: {type: etcd}\n",
            "--storage comes from c.yaml:1: storage.type",
        ),
    ] {
        write(&data, "c.yaml", text);
        let mut command = start_in(&data, &["--config", "c.yaml", "--data-dir", "."]);
        let (code, output, errors) = outcome(&mut command);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{text}: {errors}");
        assert!(errors.contains(expected), "{text}: {errors}");
    }
    write(&data, "c.yaml", "nonsense: 1\n");
    for command in ["controller", "token list", "config show"] {
        let mut call = k3(&command.split(' ').collect::<Vec<_>>());
        let (code, _, errors) = outcome(call.arg("--config").arg(data.path().join("c.yaml")));
        assert_eq!(code, Some(2), "{command}: {errors}");
        assert!(errors.contains("c.yaml:1: nonsense: no such key"), "{errors}");
    }
    let mut missing = start_in(&data, &["--config", "nowhere.yaml"]);
    let (code, _, errors) = outcome(&mut missing);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("nowhere.yaml"), "{errors}");
}

#[test]
fn config_show_prints_values_with_their_source() {
    let data = TestDataDir::new();
    write(
        &data,
        ".config.yaml",
        "api:\n  bind: 127.0.0.2\nstorage: {mysql: {password: s3cret}}\n",
    );
    let mut command = k3(&["config", "show", "--log-level", "warn"]);
    command
        .current_dir(data.path())
        .env("K3_API_PORT", "7000")
        .env("NODE_NAME", "n1");
    let (code, output, errors) = outcome(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    for (key, value, origin) in [
        ("bind", "127.0.0.2", ".config.yaml:2"),
        ("port", "7000", "environment variable K3_API_PORT"),
        ("name", "n1", "environment variable NODE_NAME"),
        ("level", "warn", "flag --log-level"),
        ("type", "file", "default"),
        ("password", "'***'", ".config.yaml:3"),
    ] {
        let is_shown = output.lines().any(|line| {
            let shown = line
                .trim()
                .strip_prefix(key)
                .and_then(|rest| rest.strip_prefix(": "));
            shown
                .and_then(|shown| shown.split_once("  # "))
                .is_some_and(|(shown, from)| shown.trim_end() == value && from == origin)
        });
        assert!(is_shown, "{key}: {value} # {origin}\n{output}");
    }
    assert!(!output.contains("s3cret"));
    // The output and the example are valid configuration files.
    for (name, text) in [
        ("shown.yaml", output),
        ("example.yaml", outcome(&mut k3(&["config", "example"])).1),
    ] {
        write(&data, name, &text);
        let (code, _, errors) = outcome(k3(&["config", "check"]).arg(data.path().join(name)));
        assert_eq!(code, Some(0), "{errors}");
    }
    let (code, _, errors) = outcome(k3(&["config", "check"]).arg(data.path().join("nowhere.yaml")));
    assert_eq!(code, Some(2), "{errors}");
}

#[tokio::test]
async fn rejects_tokens_of_another_key_and_logs_only_errors() {
    let data = TestDataDir::new();
    write(&data, "one.key", &KeyPair::generate().unwrap().serialize_pem());
    let two = KeyPair::generate().unwrap().serialize_pem();
    let file = |key: &str| {
        format!(
            "{}log: {{level: error}}\njwt: {{signing_key: {key:?}}}\n",
            minimal_config(0)
        )
    };
    write(&data, "one.yaml", &file("one.key").replace("memory", "file"));
    write(&data, "two.yaml", &file(&two).replace("memory", "file"));

    let server = data.serve(start_in(&data, &["--config", "one.yaml"]));
    let client = client(&data, None).await;
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client, "default");
    let account = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest::default();
    let made = accounts
        .create_token_request("a", &PostParams::default(), &request)
        .await
        .unwrap();
    let token = made.status.unwrap().token.unwrap();
    assert_eq!(status_code(&data, &token).await, 200);
    drop(server);
    assert_eq!(data.log(), "", "errors alone are written down");

    let server = data.serve(start_in(&data, &["--config", "two.yaml"]));
    assert_eq!(status_code(&data, &token).await, 401);
    drop(server);
    let _server = data.serve(start_in(&data, &["--config", "one.yaml"]));
    assert_eq!(status_code(&data, &token).await, 200);
}

/// A client of the administrator, or with a token.
async fn client(data: &TestDataDir, token: Option<&str>) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(data.path().join("out.kubeconfig")).unwrap();
    if let Some(token) = token {
        let user = serde_json::json!({"token": token});
        kubeconfig.auth_infos[0].auth_info = Some(serde_json::from_value(user).unwrap());
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// The status code of a request with a token that any authenticated user may send.
async fn status_code(data: &TestDataDir, token: &str) -> u16 {
    let client = client(data, Some(token)).await;
    match client.apiserver_version().await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_dial_timeout_limits_the_start() {
    let data = TestDataDir::new();
    // No host has an address of the documentation range; a machine without a route fails at once.
    let text = "storage:\n  type: etcd\n  etcd: {endpoints: ['http://192.0.2.1:2379'], dial_timeout: 1s}\n";
    write(
        &data,
        "c.yaml",
        &format!(
            "{}{text}",
            minimal_config(0).replace("storage: {type: memory}\n", "")
        ),
    );
    let mut command = Command::new("timeout");
    command.args(["8", env!("CARGO_BIN_EXE_k3"), "start", "--config", "c.yaml"]);
    let (code, _, errors) = outcome(command.current_dir(data.path()).stdin(Stdio::null()));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("192.0.2.1:2379"), "{errors}");
}
