//! The crates depend on each other only along the arrows of ARCHITECTURE.md.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{collections::BTreeSet, env, path::Path, process::Command};

use serde_json::Value;

/// A crate, and what its code may know. Tests and benchmarks inside a crate (dev-dependencies) may know more.
struct CrateRule {
    /// Its directory; `*` at the end stands for any one name.
    directory: &'static str,
    /// Directories of the crates of this workspace that it may depend on.
    knows: &'static [&'static str],
    /// Crates from elsewhere that would bring in what it must not know.
    bans: &'static [&'static str],
}

const CRATE_RULES: &[CrateRule] = &[
    // No Kubernetes, no HTTP of its own, no JSON: keys are paths, values are bytes. (`hyper` it has only to
    // understand the errors of its gRPC client; a server would need `hyper-util`.)
    CrateRule {
        directory: "crates/storage",
        knows: &["crates/files", "crates/task"],
        bans: &[
            "serde_json",
            "serde_yaml",
            "hyper-util",
            "axum",
            "kube",
            "k8s-openapi",
        ],
    },
    // Encrypts values between the API server and any store.
    CrateRule {
        directory: "crates/encryption",
        knows: &["crates/api", "crates/duration", "crates/storage"],
        bans: &["kube", "redb", "sqlx"],
    },
    // Modes of files and directories.
    CrateRule {
        directory: "crates/files",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // Clock, backoff, panics: what stores, the API server and the framework share.
    CrateRule {
        directory: "crates/task",
        knows: &[],
        bans: &["tokio", "hyper", "kube", "serde_json"],
    },
    // What labels are, and which of them are meant.
    CrateRule {
        directory: "crates/labels",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // Numbers that are counted, and the text that scrapers read.
    CrateRule {
        directory: "crates/metrics",
        knows: &[],
        bans: &["tokio", "hyper", "kube", "serde_json"],
    },
    // Settings, whatever they are of.
    CrateRule {
        directory: "crates/config",
        knows: &["crates/duration"],
        bans: &["tokio", "hyper", "kube"],
    },
    // Trees as YAML.
    CrateRule {
        directory: "crates/yaml",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // Durations, and how they are written.
    CrateRule {
        directory: "crates/duration",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // A number, and how it is written.
    CrateRule {
        directory: "crates/quantity",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // Paths over JSON: messages are client-go's.
    CrateRule {
        directory: "crates/jsonpath",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // A language over JSON: what objects are, and where they come from, it does not know.
    CrateRule {
        directory: "crates/cel",
        knows: &["crates/duration", "crates/quantity"],
        bans: &["tokio", "hyper", "hyper-util", "kube", "redb", "sqlx", "tonic"],
    },
    // Bytes to values and back: no I/O, and nothing of Kubernetes but what subjects mean to it.
    CrateRule {
        directory: "crates/pki",
        knows: &[],
        bans: &["tokio", "hyper", "kube", "rustls"],
    },
    // Pure code: no I/O, no runtime, no HTTP, no storage engine.
    CrateRule {
        directory: "crates/api",
        knows: &[
            "crates/cel",
            "crates/duration",
            "crates/jsonpath",
            "crates/labels",
            "crates/pki",
            "crates/quantity",
        ],
        bans: &[
            "tokio",
            "hyper",
            "hyper-util",
            "axum",
            "kube",
            "redb",
            "sqlx",
            "tonic",
        ],
    },
    // Words alone; the crate they come from is read by the build script and is not part of the program.
    CrateRule {
        directory: "crates/descriptions",
        knows: &[],
        bans: &["tokio", "hyper", "kube"],
    },
    // Does not know which controllers exist, nor what a store is made of.
    CrateRule {
        directory: "crates/apiserver",
        knows: &[
            "crates/api",
            "crates/cel",
            "crates/descriptions",
            "crates/duration",
            "crates/encryption",
            "crates/files",
            "crates/metrics",
            "crates/pki",
            "crates/storage",
            "crates/task",
            "crates/yaml",
        ],
        bans: &["kube", "redb", "sqlx"],
    },
    // Reads types, and knows none.
    CrateRule {
        directory: "crates/decode",
        knows: &[],
        bans: &["tokio", "hyper", "kube", "redb", "sqlx", "tonic"],
    },
    // Knows any cluster through `kube::Client`, and k3 not at all.
    CrateRule {
        directory: "crates/kubecontroller",
        knows: &[
            "crates/config",
            "crates/decode",
            "crates/labels",
            "crates/metrics",
            "crates/task",
            "crates/yaml",
        ],
        bans: &["redb", "serde-saphyr", "sqlx", "tonic"],
    },
    // What the readers of pods and nodes share; who they are, it does not know.
    CrateRule {
        directory: "crates/workloads",
        knows: &["crates/kubecontroller", "crates/quantity"],
        bans: CLIENTS_BAN,
    },
    CrateRule {
        directory: "crates/controllers",
        knows: &[
            "crates/api",
            "crates/duration",
            "crates/kubecontroller",
            "crates/pki",
            "crates/workloads",
        ],
        bans: CLIENTS_BAN,
    },
    CrateRule {
        directory: "crates/scheduler",
        knows: &["crates/kubecontroller", "crates/workloads"],
        bans: CLIENTS_BAN,
    },
    CrateRule {
        directory: "crates/node",
        knows: &[
            "crates/api",
            "crates/duration",
            "crates/files",
            "crates/kubecontroller",
            "crates/pki",
            "crates/quantity",
        ],
        bans: &["redb", "sqlx"],
    },
    CrateRule {
        directory: "crates/simulator",
        knows: &[
            "crates/api",
            "crates/duration",
            "crates/kubecontroller",
            "crates/workloads",
        ],
        bans: CLIENTS_BAN,
    },
    // A client of any cluster, and of nothing else; `hyper` it has to take over a connection for `exec`.
    CrateRule {
        directory: "crates/client",
        knows: &[
            "crates/decode",
            "crates/duration",
            "crates/files",
            "crates/jsonpath",
            "crates/labels",
            "crates/quantity",
            "crates/yaml",
        ],
        bans: &["redb", "sqlx", "tonic"],
    },
    CrateRule {
        directory: "crates/console",
        knows: &[],
        bans: &["redb", "sqlx", "tonic"],
    },
    // Wires the rooms, and knows the details of none.
    CrateRule {
        directory: "crates/k3",
        knows: &[
            "crates/apiserver",
            "crates/client",
            "crates/config",
            "crates/console",
            "crates/controllers",
            "crates/duration",
            "crates/encryption",
            "crates/files",
            "crates/kubecontroller",
            "crates/node",
            "crates/pki",
            "crates/scheduler",
            "crates/simulator",
            "crates/storage",
        ],
        bans: &["redb", "sqlx", "tonic"],
    },
    // One program of several examples.
    CrateRule {
        directory: "examples/hub",
        knows: &[
            "crates/kubecontroller",
            "examples/at",
            "examples/dummy",
            "examples/redismigration",
            "examples/workflow",
        ],
        bans: &["redb", "sqlx"],
    },
    CrateRule {
        directory: "examples/*",
        knows: &["crates/kubecontroller"],
        bans: &["redb", "sqlx"],
    },
    CrateRule {
        directory: "bench",
        knows: &[
            "crates/kubecontroller",
            "crates/node",
            "crates/pki",
            "crates/scheduler",
            "crates/storage",
            "testing/services",
        ],
        bans: &[],
    },
    // Compiles the queue of `kubecontroller` from its files, with other locks.
    CrateRule {
        directory: "testing/queue-model",
        knows: &["crates/task"],
        bans: &["kube", "redb", "sqlx", "tonic", "hyper"],
    },
    CrateRule {
        directory: "testing/objects",
        knows: &["crates/api", "crates/kubecontroller"],
        bans: &["redb", "sqlx", "tonic"],
    },
    CrateRule {
        directory: "testing/services",
        knows: &[],
        bans: &["tokio", "hyper"],
    },
    CrateRule {
        directory: "xtask",
        knows: &["testing/services"],
        bans: &["tokio", "hyper", "clap"],
    },
];

/// Crates from elsewhere that read or write DER or PEM, or verify signatures: two readers of one certificate may disagree about
/// whose it is, so that only `crates/pki` has any.
const READERS_OF_CERTIFICATES: &[&str] = &[
    "asn1-rs",
    "const-oid",
    "der",
    "der-parser",
    "ecdsa",
    "ed25519-dalek",
    "jsonwebtoken",
    "oid-registry",
    "openssl",
    "p256",
    "p384",
    "p521",
    "pem",
    "pem-rfc7468",
    "pkcs8",
    "rcgen",
    "rsa",
    "rustls-pemfile",
    "rustls-pki-types",
    "rustls-webpki",
    "simple_asn1",
    "spki",
    "x509-cert",
    "x509-parser",
    "yasna",
];

/// What runs beside the API server uses it as any client does.
const CLIENTS_BAN: &[&str] = &["redb", "sqlx", "tonic", "hyper"];

/// A dependency of a crate's code or build script.
struct Arrow {
    from: String,
    to: Target,
}

enum Target {
    /// A crate of this workspace, by its directory.
    Ours(String),
    /// A crate from elsewhere, by its name.
    Foreign(String),
}

#[test]
fn crates_depend_only_on_what_they_may_know() {
    let complaints: Vec<_> = arrows(&metadata()).iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_crate_has_a_rule() {
    let directories: Vec<_> = packages(&metadata()).map(|(directory, _)| directory).collect();
    assert!(
        directories.iter().any(|directory| directory == "crates/storage"),
        "no crates seen in {directories:?}"
    );
    for directory in directories {
        assert!(
            crate_rule(&directory).is_some(),
            "{directory} has no rule: add to CRATE_RULES of xtask/tests/crate_dependencies.rs what it may know, and in \
             ARCHITECTURE.md what it is"
        );
    }
}

#[test]
fn a_forbidden_arrow_is_seen() {
    let metadata: Value = serde_json::from_str(&example(
        r#"{"name": "serde_json", "kind": null}, {"name": "tokio", "kind": null},
           {"name": "x509-parser", "kind": null}, {"name": "rcgen", "kind": "dev"},
           {"name": "k3-api", "kind": "build", "path": "/ws/crates/api"},
           {"name": "kube", "kind": "dev"}"#,
    ))
    .unwrap();
    let complaints: Vec<_> = arrows(&metadata).iter().filter_map(complaint).collect();
    assert_eq!(complaints.len(), 3, "{complaints:?}");
    assert!(complaints[0].contains("serde_json"), "{complaints:?}");
    assert!(complaints[1].contains("x509-parser"), "{complaints:?}");
    assert!(complaints[2].contains("crates/api"), "{complaints:?}");
}

#[test]
fn the_table_has_no_circle() {
    // Leaves are taken away until none is left; what then remains goes round.
    let mut left: BTreeSet<_> = CRATE_RULES
        .iter()
        .map(|crate_rule| crate_rule.directory)
        .collect();
    loop {
        let leaves: Vec<_> = left
            .iter()
            .copied()
            .filter(|directory| {
                crate_rule(directory)
                    .is_some_and(|crate_rule| crate_rule.knows.iter().all(|known| !left.contains(known)))
            })
            .collect();
        if leaves.is_empty() {
            break;
        }
        left.retain(|directory| !leaves.contains(directory));
    }
    assert!(left.is_empty(), "these know each other in a circle: {left:?}");
}

fn complaint(arrow: &Arrow) -> Option<String> {
    let crate_rule = crate_rule(&arrow.from)?;
    match &arrow.to {
        Target::Ours(directory) if !crate_rule.knows.contains(&directory.as_str()) => Some(format!(
            "{} must not know {directory}; it may know {:?}",
            arrow.from, crate_rule.knows
        )),
        Target::Foreign(name) if crate_rule.bans.contains(&name.as_str()) => {
            Some(format!("{} must not depend on {name}", arrow.from))
        }
        Target::Foreign(name)
            if READERS_OF_CERTIFICATES.contains(&name.as_str()) && arrow.from != "crates/pki" =>
        {
            Some(format!(
                "{} must not depend on {name}, but on crates/pki",
                arrow.from
            ))
        }
        _ => None,
    }
}

fn crate_rule(directory: &str) -> Option<&'static CrateRule> {
    CRATE_RULES
        .iter()
        .find(|crate_rule| match crate_rule.directory.strip_suffix('*') {
            Some(parent) => directory
                .strip_prefix(parent)
                .is_some_and(|name| !name.contains('/')),
            None => crate_rule.directory == directory,
        })
}

/// The dependencies that end up in a build, as cargo's metadata lists them.
fn arrows(metadata: &Value) -> Vec<Arrow> {
    let root = metadata["workspace_root"].as_str().unwrap();
    let mut arrows = Vec::new();
    for (directory, package) in packages(metadata) {
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["kind"] == "dev" {
                continue;
            }
            let to = match dependency["path"].as_str() {
                Some(path) => Target::Ours(relative(path, root)),
                None => Target::Foreign(dependency["name"].as_str().unwrap().to_owned()),
            };
            arrows.push(Arrow {
                from: directory.clone(),
                to,
            });
        }
    }
    arrows
}

/// Each package with its directory.
fn packages(metadata: &Value) -> impl Iterator<Item = (String, &Value)> {
    let root = metadata["workspace_root"].as_str().unwrap();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(move |package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            (
                relative(manifest.parent().unwrap().to_str().unwrap(), root),
                package,
            )
        })
}

fn relative(path: &str, root: &str) -> String {
    Path::new(path)
        .strip_prefix(root)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

fn metadata() -> Value {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Metadata of a workspace in which the storage crate has `dependencies`.
fn example(dependencies: &str) -> String {
    format!(
        r#"{{"workspace_root": "/ws", "packages": [
            {{"manifest_path": "/ws/crates/storage/Cargo.toml", "dependencies": [{dependencies}]}}]}}"#
    )
}
