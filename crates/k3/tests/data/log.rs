//! The log: format, files and level.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    cluster::until,
    program::{Server, TestDataDir, k3, outcome},
};

fn level(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = k3(&["log-level", "--kubeconfig"]);
    outcome(command.arg(&server.kubeconfig).args(args))
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn logs_json_to_a_rotated_file_and_changes_the_level_at_runtime() {
    let data = TestDataDir::new();
    let file = data.path().join("logs/k3.log");
    let server = data.start(&[
        "--storage=memory",
        "--controllers=",
        "--log-format=json",
        "--log-max-size=4Ki",
        "--log-max-files=2",
        "--log-path",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        data.log(),
        "",
        "with a file, nothing is written to standard error"
    );
    let first = lines(&file);
    let serving = first
        .iter()
        .find(|line| line["message"].as_str().unwrap().starts_with("serving"));
    let serving = serving.unwrap();
    assert_eq!(serving["level"], "INFO");
    assert!(serving["time"].as_str().unwrap().ends_with('Z') && serving["target"].is_string());
    assert!(first.iter().all(|line| line["level"] != "DEBUG"));

    let (code, output, errors) = level(&server, &[]);
    assert_eq!((code, output.trim()), (Some(0), "info"), "{errors}");
    let (code, output, errors) = level(&server, &["warn,k3_apiserver=trace"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("k3_apiserver=trace"), "{output}");
    assert_eq!(level(&server, &[]).1.trim(), "warn,k3_apiserver=trace");
    for odd in ["loud", "info,hyper=trace"] {
        let (code, _, errors) = level(&server, &[odd]);
        assert!(
            code == Some(1) && errors.contains("the server rejected the request"),
            "{errors}"
        );
    }
    assert_eq!(level(&server, &["8"]).0, Some(0));

    // Log everything, so that the file is rotated soon.
    until("two files were put aside", || async {
        level(&server, &[]);
        file.with_file_name("k3.log.2").exists()
    })
    .await;
    // Log little, so that no file is rotated during the check.
    assert_eq!(level(&server, &["error"]).0, Some(0));
    assert!(
        lines(&file.with_file_name("k3.log.1"))
            .iter()
            .any(|line| line["level"] != "INFO")
    );
    assert!(!file.with_file_name("k3.log.3").exists());
    assert!(fs::metadata(file.with_file_name("k3.log.1")).unwrap().len() <= 4096);
    let key = fs::read_to_string(&server.kubeconfig).unwrap();
    let key = key
        .lines()
        .find_map(|line| line.trim().strip_prefix("client-key-data: "))
        .unwrap();
    for name in ["k3.log", "k3.log.1", "k3.log.2"] {
        assert!(
            !fs::read_to_string(file.with_file_name(name))
                .unwrap()
                .contains(key)
        );
    }
}

#[test]
fn rejects_invalid_levels_and_unwritable_files() {
    let data = TestDataDir::new();
    let (code, _, errors) = outcome(&mut data.command(&["--log-level", "loud"]));
    assert!(
        code == Some(2) && errors.contains("loud") && errors.contains("debug"),
        "{errors}"
    );
    let (code, _, errors) = outcome(&mut data.command(&["--log-path", "/proc/none/k3.log"]));
    assert!(code == Some(1) && errors.contains("--log-path"), "{errors}");
}
