//! Exit codes, log output and signal handling of a whole program.
//!
//! The program is this test binary, started again with an environment variable that makes one of its tests behave as the program.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    convert::Infallible,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kubecontroller::{
    App,
    controller::{Outcome, Request as Reconcile, reconcile_fn},
    informer::InformerScope,
    manager::{BoxError, ControllerSetting, Manager, ResourceMetadata, Setup, Stop, task},
    testing::{FakeApi, eventually},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

const ARGS: &str = "KUBECONTROLLER_TEST_PROGRAM";

struct TestSetup;

impl Setup for TestSetup {
    fn name(&self) -> &'static str {
        "maps"
    }

    fn resource(&self) -> &'static str {
        "configmaps"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        match manager.config().controller_setting("maps.mood") {
            "bad" => return Err("in a bad mood".into()),
            "stubborn" => {
                manager.add(task("stubborn", |_| std::future::pending()));
            }
            _ => {}
        }
        let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
        let controller = manager.controller("maps").for_(&maps);
        manager.add(
            controller.reconciler(reconcile_fn(|request: Reconcile| async move {
                tracing::info!(key = %request.key, "reconciled");
                Ok(Outcome::Done)
            })),
        );
        manager.add(task("ticker", |stop: Stop| async move {
            while stop
                .unless_stopped(tokio::time::sleep(Duration::from_millis(20)))
                .await
                .is_some()
            {
                tracing::debug!("tick");
            }
            Ok(())
        }));
        Ok(())
    }
}

kubecontroller::register! {
    name: "maps",
    metadata: ResourceMetadata::new("configmaps", "ConfigMap", "v1").description("Looks at maps").prefix("cm"),
    make: || TestSetup,
    settings: &[ControllerSetting { key: "maps.mood", help: "How it feels", default: "good" }],
}

/// Not a test: the program, if the variable is set.
#[test]
fn the_program() {
    let Ok(args) = std::env::var(ARGS) else { return };
    let args = ["program"]
        .into_iter()
        .chain(args.split('\n').filter(|arg| !arg.is_empty()));
    let code = App::new("program")
        .linked()
        .main_with(args.map(str::to_owned).collect::<Vec<_>>());
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code);
    std::process::exit(i32::from(number.expect("there are no other codes")));
}

/// A running program.
struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Program {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program", "--nocapture"])
            .env(ARGS, args.join("\n"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let seen = Vec::new();
        Program { child, lines, seen }
    }

    /// Waits for a log line that contains this text.
    fn wait_for_log(&mut self, what: &str) {
        loop {
            let line = self.lines.recv_timeout(Duration::from_mins(1));
            let line = line.unwrap_or_else(|_| panic!("no {what} in {:#?}", self.seen));
            self.seen.push(line);
            if self.seen.last().is_some_and(|line| line.contains(what)) {
                return;
            }
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for the end. Returns the exit code, stdout and the log.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        let status = self.child.wait().unwrap();
        self.seen.extend(self.lines.iter());
        (status.code(), out, self.seen.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves a fake API on a port.
async fn serve(api: &FakeApi) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let client = api.client();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let client = client.clone();
            connections.spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let client = client.clone();
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
                        Ok::<_, Infallible>(client.send(request).await.unwrap())
                    }
                });
                let _ = Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    (address, serving)
}

fn cluster() -> FakeApi {
    let api = FakeApi::new();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("one".to_owned());
    map.metadata.namespace = Some("default".to_owned());
    api.put(&map);
    api
}

fn position(log: &str, what: &str) -> usize {
    log.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{log}"))
}

/// Runs blocking code beside the API server.
async fn run_blocking<T: Send + 'static>(wait: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(wait).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_stops_the_program_in_order() {
    for name in ["-INT", "-TERM", "-QUIT"] {
        let (address, _serving) = serve(&cluster()).await;
        let mut program = Program::start(&["--master", &address, "--leader-elect"]);
        let (code, _, log) = run_blocking(move || {
            program.wait_for_log("default/one");
            program.signal(name);
            program.end()
        })
        .await;
        assert_eq!(code, Some(0), "{log}");
        let order = [
            "became leader",
            "reconciled",
            "received signal; stopping signal=",
            "stopping leader tasks",
            "released the lease",
            "stopping other tasks",
            "flushing events",
            "stopping informers",
            "stopping servers",
            "stopped",
        ];
        let positions: Vec<_> = order.iter().map(|what| position(&log, what)).collect();
        assert!(positions.is_sorted(), "{positions:?}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    let (address, _serving) = serve(&cluster()).await;
    let mut program = Program::start(&[
        "--master",
        &address,
        "--maps.mood=stubborn",
        "--graceful-shutdown-timeout=1h",
    ]);
    let (code, _, log) = run_blocking(move || {
        program.wait_for_log("default/one");
        program.signal("-TERM");
        program.wait_for_log("stopping leader tasks");
        program.signal("-INT");
        program.end()
    })
    .await;
    assert_eq!(code, Some(130), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_miss_the_shutdown_deadline_are_dropped() {
    let (address, _serving) = serve(&cluster()).await;
    let mut program = Program::start(&[
        "--master",
        &address,
        "--maps.mood=stubborn",
        "--graceful-shutdown-timeout=200ms",
    ]);
    let (code, _, log) = run_blocking(move || {
        program.wait_for_log("default/one");
        program.signal("-TERM");
        program.end()
    })
    .await;
    assert_eq!(code, Some(0), "{log}");
    position(
        &log,
        "dropped controller that did not stop by the deadline controller=\"stubborn\"",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_can_be_changed_while_running() {
    let (address, _serving) = serve(&cluster()).await;
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let health = format!("--health-probe-bind-address={free}");
    let mut program = Program::start(&["--master", &address, &health, "--log-format=json"]);
    let mut program = run_blocking(move || {
        program.wait_for_log("default/one");
        program
    })
    .await;
    assert!(
        !program.seen.iter().any(|line| line.contains("\"tick\"")),
        "{:?}",
        program.seen
    );
    eventually(|| async {
        let mut stream = tokio::net::TcpStream::connect(&free).await.ok()?;
        let request = "PUT /debug/log-level HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\ndebug";
        stream.write_all(request.as_bytes()).await.ok()?;
        // The server may drop the request if the client disconnects before the response.
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.ok()?;
        answer.starts_with(b"HTTP/1.1 20").then_some(())
    })
    .await;
    let (_, _, log) = run_blocking(move || {
        program.wait_for_log("\"message\":\"tick\"");
        program.signal("-TERM");
        program.end()
    })
    .await;
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["time"].is_string() && line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }

    let mut program = Program::start(&["--master", &address, "-v"]);
    run_blocking(move || program.wait_for_log(" tick")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_errors_exit_with_2_before_connecting_and_failures_with_1() {
    let api = cluster();
    let (address, _serving) = serve(&api).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.yaml");
    std::fs::write(&file, "workers: 2\nlog:\n  levle: debug\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, code, message) in [
        (&["--wrokers=3"][..], 2, "--wrokers"),
        (
            &["--workers=x"],
            2,
            "error: --workers: \"x\" is not a whole number",
        ),
        (
            &["-c", file],
            2,
            "app.yaml:3: log.levle: no such key; did you mean log.level?",
        ),
        (&["-c", "/nowhere.yaml"], 2, "error: /nowhere.yaml: No such file"),
        (
            &["--enabled=bats"],
            2,
            "error: unknown controller \"bats\"; known: configmaps, maps",
        ),
        (
            &["--resource-filter.pods=x"],
            2,
            "error: resource-filter.pods: no controller handles this resource; known: configmaps",
        ),
        (
            &["--maps.mood=bad"],
            1,
            "error: setup of maps failed: in a bad mood",
        ),
        (
            &["--kubeconfig=/nowhere.conf"],
            1,
            "error: failed to create the client",
        ),
    ] {
        let args: Vec<_> = args.iter().copied().chain(["--master", &address]).collect();
        let (got, _, log) = Program::start(&args).end();
        assert_eq!(got, Some(code), "{args:?}: {log}");
        assert!(log.contains(message), "{args:?}: {log}");
    }
    assert!(api.requests().is_empty(), "{:?}", api.requests());
}

#[test]
fn lists_linked_controllers_and_prints_help() {
    let (code, out, _) = Program::start(&["--list"]).end();
    assert_eq!(code, Some(0));
    assert!(out.contains("maps\tconfigmaps\tLooks at maps\n"), "{out}");
    let (code, out, _) = Program::start(&["--help"]).end();
    assert_eq!(code, Some(0));
    for flag in [
        "--config <FILE>",
        "--leader-elect",
        "--resource-filter.<resource>",
        "--maps.mood",
    ] {
        assert!(out.contains(flag), "{flag}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_controller_is_logged_and_sends_no_request() {
    let api = cluster();
    let (address, _serving) = serve(&api).await;
    let mut program = Program::start(&[
        "--master",
        &address,
        "--log-level=debug",
        "--controllers=*,-configmaps",
    ]);
    let (code, _, _) = run_blocking(move || {
        program.wait_for_log("controller is disabled controller=\"maps\" resource=\"configmaps\" reason=\"disabled by configuration\"");
        program.wait_for_log("informers are synced");
        program.signal("-TERM");
        program.end()
    })
    .await;
    assert_eq!(code, Some(0));
    assert!(api.requests().is_empty(), "{:?}", api.requests());
}
