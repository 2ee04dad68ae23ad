//! A test environment as controller-runtime makes one: the same files, the same flags in the same order, the same polling, the
//! same way to stop.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Request;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::program::{k3, outcome};

/// How long a start and a stop may take. An environment gives up after 20 s, on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_mins(1);
/// How long it waits between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// The directory of programs that `k3 envtest-assets` makes.
pub(crate) struct EnvtestAssets(TempDir);

/// A control plane in two processes.
pub(crate) struct EnvtestSuite {
    assets: EnvtestAssets,
    etcd: Option<ProgramProcess>,
    apiserver: Option<ProgramProcess>,
    etcd_url: String,
    port: u16,
    data: TempDir,
    certificates: TempDir,
    authority: String,
    /// Signs the certificates of users.
    users: TinyAuthority,
    /// The etcd, if it is not k3.
    real_etcd: Option<PathBuf>,
    /// What the programs find in their environment beyond what is there.
    variables: Vec<(&'static str, &'static str)>,
}

/// A program that is a group of processes of its own. Dropping it ends it.
struct ProgramProcess(Child);

/// An authority as controller-runtime makes it.
struct TinyAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

// --- EnvtestAssets ---

impl EnvtestAssets {
    pub(crate) fn make() -> Self {
        let assets = EnvtestAssets(tempfile::tempdir().unwrap());
        let (code, output, errors) = outcome(k3(&["envtest-assets"]).arg(assets.0.path()));
        assert_eq!(code, Some(0), "{errors}");
        let directory = fs::canonicalize(assets.0.path()).unwrap();
        assert_eq!(
            output,
            format!("export KUBEBUILDER_ASSETS={}\n", directory.display())
        );
        assets
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Whether the help of a program has a line for a flag, which is how environments find out.
fn has_flag(program: &Path, flag: &str) -> bool {
    let (code, output, errors) = outcome(Command::new(program).arg("--help"));
    assert_eq!(code, Some(0), "{errors}");
    let begins = |line: &str| {
        let rest = line
            .trim_start()
            .strip_prefix("--")
            .and_then(|line| line.strip_prefix(flag));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    };
    (output + &errors).lines().any(begins)
}

// --- EnvtestSuite ---

impl EnvtestSuite {
    /// Starts both programs, each when the one before is healthy.
    pub(crate) async fn start(variables: &[(&'static str, &'static str)]) -> Self {
        Self::begin(variables, None).await
    }

    /// The same with an etcd that is one, as `TEST_ASSET_ETCD` names it.
    pub(crate) async fn start_with_etcd(program: PathBuf) -> Self {
        Self::begin(&[], Some(program)).await
    }

    async fn begin(variables: &[(&'static str, &'static str)], real_etcd: Option<PathBuf>) -> Self {
        let serving = TinyAuthority::new();
        let mut env = EnvtestSuite {
            assets: EnvtestAssets::make(),
            etcd: None,
            apiserver: None,
            etcd_url: format!("http://127.0.0.1:{}", free_port()),
            port: free_port(),
            data: tempfile::tempdir().unwrap(),
            certificates: tempfile::tempdir().unwrap(),
            authority: serving.certificate.clone(),
            users: TinyAuthority::new(),
            real_etcd,
            variables: variables.to_vec(),
        };
        env.start_etcd().await;
        env.write_files(&serving);
        env.start_apiserver().await;
        env
    }

    async fn start_etcd(&mut self) {
        let url = &self.etcd_url;
        let mut args = vec![
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", self.data.path().display()),
            format!("--listen-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()),
        ];
        let program = self
            .real_etcd
            .clone()
            .unwrap_or_else(|| self.assets.program("etcd"));
        if has_flag(&program, "unsafe-no-fsync") {
            args.push("--unsafe-no-fsync=true".to_owned());
        }
        self.etcd = Some(self.run(&program, &args));
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        healthy("etcd", &client, "/health").await;
    }

    /// Starts the API server, which may have run before.
    pub(crate) async fn start_apiserver(&mut self) {
        let port = self.port;
        let program = self.assets.program("kube-apiserver");
        assert!(!has_flag(&program, "insecure-port"));
        let directory = self.certificates.path().display();
        let args = [
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={directory}"),
            format!("--client-ca-file={directory}/client-cert-auth-ca.crt"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={}", self.etcd_url),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={directory}/sa-signer.crt"),
            format!("--service-account-signing-key-file={directory}/sa-signer.key"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        self.apiserver = Some(self.run(&program, &args));
        let mut config = Config::new(format!("https://127.0.0.1:{port}/").parse().unwrap());
        config.accept_invalid_certs = true;
        healthy("kube-apiserver", &Client::try_from(config).unwrap(), "/healthz").await;
    }

    fn run(&self, program: &Path, args: &[String]) -> ProgramProcess {
        let name = program.file_name().unwrap().display();
        let log = fs::File::create(self.certificates.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.env_remove("K3_ENVTEST_CONTROLLERS").process_group(0);
        command.envs(self.variables.iter().copied());
        ProgramProcess(command.spawn().unwrap())
    }

    fn write_files(&self, serving: &TinyAuthority) {
        let directory = self.certificates.path();
        let (certificate, key) = serving.sign(
            "localhost",
            &["envtest"],
            ExtendedKeyUsagePurpose::ServerAuth,
            vec![
                SanType::DnsName("localhost".try_into().unwrap()),
                SanType::IpAddress(Ipv4Addr::LOCALHOST.into()),
            ],
        );
        let signer = TinyAuthority::new();
        for (name, text) in [
            ("apiserver.crt", &certificate),
            ("apiserver.key", &key),
            ("sa-signer.crt", &signer.certificate),
            ("sa-signer.key", &signer.key),
            ("client-cert-auth-ca.crt", &self.users.certificate),
        ] {
            fs::write(directory.join(name), text).unwrap();
        }
    }

    /// A client for a user of these groups, as `AddUser` provisions it.
    pub(crate) async fn user(&self, name: &str, groups: &[&str]) -> Client {
        let (certificate, key) =
            self.users
                .sign(name, groups, ExtendedKeyUsagePurpose::ClientAuth, Vec::new());
        let [certificate, key] = [certificate, key].map(|pem| STANDARD.encode(pem));
        self.client(&format!(
            "client-certificate-data: {certificate}\n    client-key-data: {key}"
        ))
        .await
    }

    /// A client that shows a token.
    pub(crate) async fn bearer(&self, token: &str) -> Client {
        self.client(&format!("token: {token}")).await
    }

    async fn client(&self, credentials: &str) -> Client {
        let text = format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: envtest
  cluster:
    server: https://127.0.0.1:{}/
    certificate-authority-data: {}
users:
- name: user
  user:
    {credentials}
contexts:
- name: envtest
  context: {{cluster: envtest, user: user}}
current-context: envtest
",
            self.port,
            STANDARD.encode(&self.authority)
        );
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        Client::try_from(config).unwrap()
    }

    /// Stops the API server alone.
    pub(crate) async fn stop_apiserver(&mut self) {
        let status = stop("kube-apiserver", self.apiserver.take()).await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }

    /// Stops both in order.
    pub(crate) async fn stop(mut self) {
        self.stop_apiserver().await;
        let status = stop("etcd", self.etcd.take()).await;
        if self.real_etcd.is_none() {
            assert_eq!(status.code(), Some(0));
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.certificates.path().join("kube-apiserver.log")).unwrap()
    }
}

/// Asks until the answer is 200.
async fn healthy(name: &str, client: &Client, path: &str) {
    let asking = async {
        loop {
            let request = Request::get(path).body(Vec::new()).unwrap();
            if client.request_text(request).await.is_ok() {
                return;
            }
            sleep(INTERVAL).await;
        }
    };
    assert!(
        timeout(LIMIT, asking).await.is_ok(),
        "timeout waiting for process {name} to start"
    );
}

/// Asks the group of processes to stop, and waits for the end.
async fn stop(name: &str, running: Option<ProgramProcess>) -> ExitStatus {
    let mut running = running.expect("it runs");
    running.signal(Signal::TERM);
    let ending = async {
        loop {
            if let Some(status) = running.0.try_wait().unwrap() {
                return status;
            }
            sleep(INTERVAL / 10).await;
        }
    };
    let status = timeout(LIMIT, ending).await;
    status.unwrap_or_else(|_| panic!("timeout waiting for process {name} to stop"))
}

/// Outside the ephemeral range: the kernel could give such a port to a client between a stop and a start.
fn free_port() -> u16 {
    k3_test_services::free_port().unwrap()
}

/// A call of one of the programs.
pub(crate) fn call(program: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    outcome(Command::new(program).args(args).stdin(Stdio::null()))
}

// --- ProgramProcess ---

impl ProgramProcess {
    fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// --- TinyAuthority ---

impl TinyAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["envtest-environment".to_owned()]).unwrap();
        params.distinguished_name = subject("envtest-environment", &["envtest"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        let certificate = params.self_signed(&key).unwrap().pem();
        TinyAuthority {
            certificate,
            key: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate and its key.
    fn sign(
        &self,
        name: &str,
        groups: &[&str],
        usage: ExtendedKeyUsagePurpose,
        names: Vec<SanType>,
    ) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, groups);
        params.subject_alt_names = names;
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
        ];
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        (certificate, key.serialize_pem())
    }
}

fn subject(name: &str, groups: &[&str]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    subject.push(DnType::CommonName, name);
    subject
}
