//! Usage errors and start errors.

use std::{fs, net::TcpListener};

use crate::program::{TestDataDir, k3, outcome};

#[test]
fn usage_errors_exit_with_2_and_a_reason() {
    for (args, expected_texts) in [
        (
            &["--storage", "tape"][..],
            &["tape", "memory, file, etcd, mysql"][..],
        ),
        (&["--bind", "localhost"], &["--bind", "localhost"]),
        (&["--secure-port", "70000"], &["--secure-port"]),
        (&["--service-cluster-ip-range", "10.96.0.0"], &["10.96.0.0/16"]),
        (
            &["--service-account-issuer", "me"],
            &["https://kubernetes.default.svc"],
        ),
        (&["--tls-san", "a b"], &["--tls-san", "DNS name"]),
        (&["--kubectl-ephemeral-token-duration", "1"], &["1h30m"]),
        (&["--etcd-servers", "http://127.0.0.1:1"], &["--storage etcd"]),
        (
            &["--backend", "etcd"],
            &["--etcd-servers", "http://127.0.0.1:2379"],
        ),
        (
            &["--backend=file", "--file-rootpath="],
            &["--file-rootpath", "empty"],
        ),
        (
            &[
                "--storage=etcd",
                "--etcd-servers=http://127.0.0.1:1",
                "--etcd-prefix=k3",
            ],
            &["storage.etcd.prefix"],
        ),
        (&["--stroage", "file"], &["--storage"]),
        (&["--secure-port", "0", "extra"], &["extra"]),
    ] {
        let data = TestDataDir::new();
        let mut command = k3(&["start"]);
        command.arg("--data-dir").arg(data.path());
        // The last one of a flag that is given twice would count, so the port is only set where it is not tried.
        if !args.contains(&"--secure-port") {
            command.args(["--secure-port", "0"]);
        }
        let (code, output, errors) = outcome(command.args(args));
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert_eq!(output, "", "{args:?}");
        for word in expected_texts {
            assert!(errors.contains(word), "{args:?}: {word} is missing in: {errors}");
        }
    }
}

#[test]
fn a_password_is_not_repeated() {
    let data = TestDataDir::new();
    for url in ["mysql://u:s3cret", "mysql://u:s3cret@127.0.0.1:1/k3"] {
        let (code, output, errors) = outcome(&mut data.command(&["--storage=mysql", "--mysql-url", url]));
        assert_ne!(code, Some(0));
        assert!(!format!("{output}{errors}").contains("s3cret"), "{errors}");
    }
}

#[test]
fn reports_a_port_in_use_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data = TestDataDir::new();
    let mut command = k3(&[
        "start",
        "--secure-port",
        &address.port().to_string(),
        "--data-dir",
    ]);
    let (code, _, errors) = outcome(command.arg(data.path()));
    assert_eq!(code, Some(1));
    assert!(errors.contains(&address.to_string()), "{errors}");
    assert!(
        errors.contains("in use") && errors.contains("--secure-port"),
        "{errors}"
    );
}

#[test]
fn reports_a_data_directory_in_use_with_advice() {
    let data = TestDataDir::new();
    let _first = data.start(&[]);
    let (code, _, errors) = outcome(&mut data.command(&[]));
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("in use") && errors.contains("--data-dir"),
        "{errors}"
    );
}

#[test]
fn token_file_errors_name_the_line_without_the_token() {
    let data = TestDataDir::new();
    let tokens = data.path().join("tokens.csv");
    fs::write(&tokens, "t,admin,u\ns3cret,alice\n").unwrap();
    let (code, _, errors) = outcome(&mut data.command(&["--token-auth-file", tokens.to_str().unwrap()]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("tokens.csv, line 2"), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");
}

#[test]
fn reports_a_file_without_keys() {
    let data = TestDataDir::new();
    let keys = data.path().join("keys.pem");
    fs::write(&keys, "nothing\n").unwrap();
    let flag = format!("--service-account-key-file={}", keys.display());
    let (code, _, errors) = outcome(&mut data.command(&["--storage=memory", &flag]));
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("keys.pem") && errors.contains("PUBLIC KEY"),
        "{errors}"
    );
}

#[test]
fn a_missing_authority_key_is_an_error() {
    let data = TestDataDir::new();
    drop(data.start(&["--storage=memory"]));
    let key = data.path().join("tls/ca.key");
    fs::remove_file(&key).unwrap();
    let (code, _, errors) = outcome(&mut data.command(&["--storage=memory"]));
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("ca.key") && errors.contains("restore"),
        "{errors}"
    );
    assert!(!key.exists());
}

#[test]
fn help_describes_every_flag() {
    let (code, help, _) = outcome(&mut k3(&["start", "--help"]));
    assert_eq!(code, Some(0));
    for flag in [
        "--data-dir",
        "--storage",
        "--etcd-servers",
        "--mysql-url",
        "--bind",
        "--secure-port",
        "--advertise-address",
        "--tls-san",
        "--kubeconfig-out",
        "--token-auth-file",
        "--anonymous-auth",
        "--authn-allow-localhost",
        "--kubectl-disabled",
        "--kubectl-ephemeral-token",
        "--unrestricted-update",
        "--insecure-port",
        "--service-account-key-file",
        "--api-audiences",
        "-v, --v",
        "--service-account-issuer",
        "--service-cluster-ip-range",
        "--controllers",
        "--no-node",
        "export KUBECONFIG",
        "Exit codes",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
}
