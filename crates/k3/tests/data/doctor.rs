//! `k3 doctor`.

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

fn status_of<'t>(report: &'t Value, what: &str) -> &'t str {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == what).unwrap();
    check["verdict"].as_str().unwrap()
}

#[test]
fn reports_a_healthy_directory_and_a_missing_key() {
    let data = TestDataDir::new();
    let server = data.start(&["--controllers="]);
    let port = server.port();
    let (code, report, errors) = doctor(&data, port);
    assert_eq!(code, Some(0), "{report:#} {errors}");
    for what in ["store", "certificates", "server", "port of the API", "clock"] {
        assert_eq!(status_of(&report, what), "ok", "{what}: {report:#}");
    }
    server.end_by(Signal::TERM);
    let (code, report, errors) = doctor(&data, port);
    assert_eq!(code, Some(0), "{report:#} {errors}");
    assert_eq!(status_of(&report, "store"), "ok", "{report:#}");

    fs::remove_file(data.path().join("tls/ca.key")).unwrap();
    let (code, report, errors) = doctor(&data, port);
    assert_eq!(code, Some(1));
    assert_eq!(status_of(&report, "certificates"), "fail", "{report:#}");
    assert_eq!(report["verdict"], "fail");
    assert!(errors.contains("1 of"), "{errors}");
    let (_, text, _) = outcome(k3(&["doctor", "--no-node", "--data-dir"]).arg(data.path()));
    assert!(
        text.contains("fail  certificates: ca") && text.contains("-> restore"),
        "{text}"
    );
}
