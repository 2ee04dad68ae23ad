//! What the doctor finds.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{TestDataDir, k3, outcome};

fn doctor(data: &TestDataDir, port: u16) -> (Option<i32>, Value, String) {
    let mut command = k3(&[
        "doctor",
        "--no-node",
        "-o",
        "json",
        "--secure-port",
        &port.to_string(),
    ]);
    let (code, output, errors) = outcome(command.arg("--data-dir").arg(data.path()));
    (code, serde_json::from_str(&output).unwrap(), errors)
}

fn verdict<'t>(told: &'t Value, what: &str) -> &'t str {
    let checks = told["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == what).unwrap();
    check["verdict"].as_str().unwrap()
}

#[test]
fn a_good_directory_is_well_with_and_without_a_server_and_a_broken_one_is_told_with_a_way_out() {
    let data = TestDataDir::new();
    let server = data.start(&["--controllers="]);
    let port = server.port();
    let (code, told, errors) = doctor(&data, port);
    assert_eq!(code, Some(0), "{told:#} {errors}");
    for what in ["store", "certificates", "server", "port of the API", "clock"] {
        assert_eq!(verdict(&told, what), "ok", "{what}: {told:#}");
    }
    server.end_by(Signal::TERM);
    let (code, told, errors) = doctor(&data, port);
    assert_eq!(code, Some(0), "{told:#} {errors}");
    assert_eq!(verdict(&told, "store"), "ok", "{told:#}");

    fs::remove_file(data.path().join("tls/ca.key")).unwrap();
    let (code, told, errors) = doctor(&data, port);
    assert_eq!(code, Some(1));
    assert_eq!(verdict(&told, "certificates"), "fail", "{told:#}");
    assert_eq!(told["verdict"], "fail");
    assert!(errors.contains("1 of"), "{errors}");
    let (_, text, _) = outcome(k3(&["doctor", "--no-node", "--data-dir"]).arg(data.path()));
    assert!(
        text.contains("fail  certificates: ca") && text.contains("-> restore"),
        "{text}"
    );
}
