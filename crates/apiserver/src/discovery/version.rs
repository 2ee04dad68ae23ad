//! `/version`: the version of the server.

use serde_json::{Value, json};

/// The version of the API that is served.
const MAJOR: &str = "1";
const MINOR: &str = "37";

/// The document. Clients read `gitVersion`, and compare it with their own.
// upstream: staging/src/k8s.io/apiserver/pkg/server/routes/version.go handleVersion
pub fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "36",
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+k3.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The machine, in the words Go has for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
