//! What is made, and what is not removed.

use std::{env, fs};

use crate::cluster_dir::ClusterDir;

#[test]
fn writes_a_configuration_per_node() {
    let cluster = ClusterDir::new();
    cluster.run_ok("create --nodes 3 --storage memory");
    let mut names = Vec::new();
    for number in 1..=3 {
        let text =
            fs::read_to_string(cluster.directory().join(format!("node-{number}/.config.yaml"))).unwrap();
        let line = |start: &str| {
            text.lines()
                .find_map(|line| line.trim().strip_prefix(start))
                .unwrap()
                .to_owned()
        };
        assert_eq!(line("role: "), if number == 1 { "one" } else { "node" });
        assert!(
            text.contains(&format!("web:\n  port: {}\n", 8079 + number)),
            "{text}"
        );
        assert!(text.contains(&format!("  port: {}\n", 10_249 + number)), "{text}");
        names.push(line("name: "));
    }
    names.dedup();
    assert_eq!(names.len(), 3);

    let (code, _, errors) = cluster.cluster("create");
    assert_eq!(code, Some(1));
    assert!(errors.contains("already"), "{errors}");
    assert!(
        cluster
            .run_ok("list")
            .contains(cluster.directory().to_str().unwrap())
    );
    assert!(cluster.run_ok("status").contains("stopped"));

    // Another cluster of the same machine shares no name.
    cluster.run_ok("create --dir other");
    let other = fs::read_to_string(cluster.path().join("other/node-1/.config.yaml")).unwrap();
    assert!(!other.contains(&names[0]), "{other}");
    cluster.run_ok("clear --dir other --force");
    assert_eq!(cluster.run_ok("list").lines().count(), 2);
}

#[test]
fn usage_errors_exit_with_2() {
    let cluster = ClusterDir::new();
    for line in [
        "",
        "create --nodes 0",
        "create --nodes -1",
        "create --storage tape",
        "create --nodes 3 --web-port 65534",
        "create --dir /",
        "create --dir ..",
    ] {
        let (code, output, _) = cluster.cluster(line);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{line}");
        assert!(!cluster.directory().exists(), "{line}");
    }
}

#[test]
fn clear_needs_a_confirmation_and_a_cluster() {
    let cluster = ClusterDir::new();
    cluster.run_ok("create");
    // A script must not take a refusal for done.
    for answer in ["no\n", "\n", "y\n", ""] {
        let (code, _, errors) = cluster.run_with_input("clear", answer);
        assert_eq!(code, Some(1), "{answer:?}");
        assert!(errors.contains("nothing was removed"), "{errors}");
        assert!(cluster.directory().join("node-1/.config.yaml").exists());
    }
    let foreign = cluster.path().join("foreign");
    fs::create_dir_all(foreign.join("node-1")).unwrap();
    let home = env::var("HOME").unwrap();
    for (dir, expected) in [
        ("/", 2),
        ("..", 2),
        (".k3/..", 2),
        (".", 2),
        (home.as_str(), 2),
        (foreign.to_str().unwrap(), 1),
        ("absent", 1),
    ] {
        let (code, _, errors) = cluster.cluster(&format!("clear --force --dir {dir}"));
        assert_eq!(code, Some(expected), "{dir}: {errors}");
    }
    assert!(foreign.join("node-1").exists());

    fs::write(cluster.directory().join("mine"), "").unwrap();
    let (code, output, _) = cluster.run_with_input("clear", "yes\n");
    assert_eq!(code, Some(0), "{output}");
    assert!(cluster.directory().join("mine").exists() && !cluster.directory().join("node-1").exists());
    fs::remove_dir_all(cluster.directory()).unwrap();
}
