//! The demo of the project, as a user runs it.

use k3_test_services::{PAUSE_IMAGE, docker, find_program, free_port};

use crate::cluster_dir::{ClusterDir, free_ports};

#[test]
fn runs_the_demo() {
    let cluster = ClusterDir::new();
    let socket = docker().display();
    let mut demo = cluster.program(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo.sh"));
    demo.env("K3", env!("CARGO_BIN_EXE_k3"))
        .env("DIR", cluster.directory())
        .env("IMAGE", PAUSE_IMAGE)
        .env(
            "DOCKER",
            format!(
                "{} --host unix://{socket}",
                find_program("docker").unwrap().display()
            ),
        )
        .env("RUNTIME", "docker")
        .env("RUNTIME_ENDPOINT", docker())
        .env("API_PORT", free_port().unwrap().to_string())
        .env("NODES", "2")
        .env("NODE_PORT", free_ports(2).to_string());
    let output = demo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said.matches("\nk8s_default_nginx-").count(), 2, "{said}");
    assert!(!cluster.directory().exists());
}
