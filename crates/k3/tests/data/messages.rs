//! Version and manual pages.

use serde_json::Value;

use crate::program::{TestDataDir, k3, outcome};

#[test]
fn prints_the_versions_of_program_and_server() {
    let data = TestDataDir::new();
    let (code, output, _) = outcome(k3(&["version", "--data-dir"]).arg(data.path()));
    assert_eq!(code, Some(0));
    assert!(
        output.contains("Client Version: v1.") && !output.contains("Server"),
        "{output}"
    );
    let _server = data.start(&["--storage=memory", "--controllers="]);
    let (code, output, errors) = outcome(k3(&["version", "-o", "json", "--data-dir"]).arg(data.path()));
    assert_eq!(code, Some(0), "{errors}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        report["clientVersion"]["gitVersion"],
        report["serverVersion"]["gitVersion"]
    );
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let (code, output, errors) = outcome(k3(&["man", "--dir"]).arg(directory.path()));
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("pages"), "{output}");
    for page in [
        "k3.1",
        "k3-start.1",
        "k3-snapshot-save.1",
        "k3-certs-rotate.1",
        "k3-doctor.1",
    ] {
        assert!(directory.path().join(page).exists(), "{page}");
    }
    let (code, page, _) = outcome(&mut k3(&["man"]));
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH k3 1") && page.contains("snapshot"), "{page}");
}
