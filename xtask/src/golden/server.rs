//! A k3 that is set up as the recorded server was.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use k3_test_services::Daemon;
use serde_json::Value;

use crate::{step, workspace::Workspace};

/// A server that ends when this is dropped.
pub(super) struct GoldenServer {
    /// Where it listens.
    pub(super) url: String,
    /// The certificate of its authority.
    pub(super) authority: PathBuf,
    /// Held only to be dropped.
    _daemon: Daemon,
}

/// Flags of the recorded server, beside its tokens.
const SETUP: &[&str] = &[
    "start",
    "--storage=memory",
    "--secure-port=0",
    "--anonymous-auth=true",
    "--service-cluster-ip-range=10.96.0.0/16",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--no-node",
];

/// Waits until the server reports that it is ready; the arguments are its URL and the authority's certificate.
const WAIT: &str = "
import ssl, sys, time, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
request = urllib.request.Request(sys.argv[1] + '/readyz', headers={'Authorization': 'Bearer admin-token'})
end = time.time() + 60
while True:
    try:
        urllib.request.urlopen(request, context=context, timeout=10).read()
        break
    except OSError as error:
        if time.time() > end:
            sys.exit('/readyz: %s' % error)
        time.sleep(0.05)
";

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error("cannot run cargo: {0}")]
    Cargo(#[source] io::Error),
    #[error("k3 does not build")]
    Failed,
    #[error("cargo does not say where it put k3")]
    NoPath,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The process ended or did not serve in time.
    #[error("{0}")]
    Daemon(String),
    #[error("k3 wrote no kubeconfig: {0}")]
    NoKubeconfig(#[source] io::Error),
    #[error("k3's kubeconfig names no server")]
    NoServer,
    #[error("k3 did not become ready")]
    NotReady,
    #[error("cannot run python3: {0}")]
    Python(#[source] io::Error),
}

/// Which build the program is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramBuild {
    /// It is built alone.
    Alone,
    /// It was built together with all tests: it is there already, while built alone its dependencies have other features, and are
    /// built once more.
    WithTests,
}

/// Builds the program and returns its path.
pub(super) fn build(workspace: &Workspace, build: ProgramBuild) -> Result<PathBuf, BuildError> {
    let what = match build {
        ProgramBuild::WithTests => "--workspace --tests",
        ProgramBuild::Alone => "--package k3",
    };
    let mut command = workspace.cargo(&format!(
        "build --quiet {what} --message-format=json-render-diagnostics"
    ));
    step::headline(&format!("cargo build {what}"));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(BuildError::Cargo)?;
    if !output.status.success() {
        return Err(BuildError::Failed);
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).ok_or(BuildError::NoPath)
}

/// The program among cargo's messages, a line each.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_k3 = message.pointer("/target/name")? == "k3" && message.pointer("/profile/test")? == false;
        is_k3.then(|| message.get("executable")?.as_str().map(PathBuf::from))?
    })
}

/// Starts the program on a free port, and waits until it is ready.
pub(super) fn start(
    program: &Path,
    python: &Path,
    tokens: &Path,
    setup: &[&str],
) -> Result<GoldenServer, StartError> {
    let args = |directory: &Path| {
        let data = directory.join("data");
        let mut args: Vec<_> = SETUP.iter().chain(setup).map(Into::into).collect();
        args.extend(["--data-dir".into(), data.into_os_string()]);
        args.extend(["--token-auth-file".into(), tokens.as_os_str().to_owned()]);
        args
    };
    let is_serving = |log: &str| log.contains("export KUBECONFIG=");
    let daemon = Daemon::start("golden", program, args, is_serving)
        .map_err(|error| StartError::Daemon(error.to_string()))?;
    let data = daemon.directory().join("data");
    let kubeconfig = fs::read_to_string(data.join("admin.kubeconfig")).map_err(StartError::NoKubeconfig)?;
    let url = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: "))
        .ok_or(StartError::NoServer)?
        .to_owned();
    let authority = data.join("tls/ca.crt");
    let waited = Command::new(python)
        .args(["-c", WAIT, &url])
        .arg(&authority)
        .stdin(Stdio::null())
        .status();
    match waited {
        Ok(status) if status.success() => Ok(GoldenServer {
            url,
            authority,
            _daemon: daemon,
        }),
        Ok(_) => Err(StartError::NotReady),
        Err(error) => Err(StartError::Python(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"k3_storage"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"k3"},"profile":{"test":true},"executable":"/target/debug/deps/k3-1"}
{"reason":"compiler-artifact","target":{"name":"k3"},"profile":{"test":false},"executable":"/target/debug/k3"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages), Some("/target/debug/k3".into()));
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
