//! Streams to containers through the API server: logs, exec, attach, port-forward, cp, debug, top.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use k3_test_services::TEST_IMAGE;

use super::environment::{PodTestEnvironment, RuntimeEnvironment, TIMEOUT};
use crate::program::outcome;

pub(crate) fn streams_work_with_containers(environment: &RuntimeEnvironment) {
    let pod_environment = environment.pod_environment();
    let script = "echo ready; mkdir /www; echo welcome >/www/index.html; httpd -p 8080 -h /www; \
                  while read line; do echo heard $line; done; sleep 1000";
    let mut main = super::environment::container("main", script);
    main["stdin"] = true.into();
    pod_environment.apply(
        &serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}}),
    );
    pod_environment.kubectl("wait pod/web --for=condition=Ready --timeout=120s");
    runs_commands(|args| pod_environment.command(args));
    runs_commands(|args| pod_environment.k3_command_for(args));
    has_a_terminal(&pod_environment);
    is_attached_and_followed(&pod_environment);
    forwards_a_port(&pod_environment);
    copies_files(&pod_environment);
    is_debugged(&pod_environment);
    is_measured(&pod_environment);
}

fn runs_commands(client: impl Fn(&[&str]) -> Command) {
    let mut child = client(&["exec", "-i", "web", "--", "tr", "a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"loud\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "LOUD\n");
    let script = "echo out; echo err >&2; exit 3";
    let (code, output, errors) = outcome(&mut client(&["exec", "web", "--", "sh", "-c", script]));
    assert_eq!(
        (code, output.as_str(), errors.as_str()),
        (Some(3), "out\n", "err\ncommand terminated with exit code 3\n")
    );
}

/// A terminal is passed to the container with its size, and restored afterwards.
fn has_a_terminal(pod_environment: &PodTestEnvironment) {
    let line = |command: &Command| {
        let columns = std::iter::once(command.get_program()).chain(command.get_args());
        let columns: Vec<_> = columns.map(|word| format!("'{}'", word.display())).collect();
        columns.join(" ")
    };
    // A runtime tells the container its size a little after the command begins.
    let within = "tty; for i in $(seq 600); do [ \"$(stty size 2>/dev/null)\" = \"33 77\" ] && echo large && break; \
                  sleep 0.1; done; exit 4";
    let exec = pod_environment.k3_command_for(&["exec", "-it", "web", "--", "sh", "-c", within]);
    let script = format!(
        "stty rows 33 cols 77; before=$(stty -g); {}; echo code $?; test \"$before\" = \"$(stty -g)\" && echo same",
        line(&exec)
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-q", "-c", &script, "/dev/null"])
        .stdin(Stdio::null());
    for (name, value) in exec.get_envs() {
        terminal.env(name, value.unwrap_or_default());
    }
    let (_, output, errors) = outcome(&mut terminal);
    for part in ["/dev/pts/", "large", "code 4", "same"] {
        assert!(output.contains(part), "{part} is not in {output}{errors}");
    }
}

/// Input to an attached container appears in its followed log.
fn is_attached_and_followed(pod_environment: &PodTestEnvironment) {
    let mut following = pod_environment
        .command(&["logs", "-f", "web"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(following.stdout.take().unwrap()).lines();
    assert_eq!(log.next().unwrap().unwrap(), "ready");
    let mut attached = pod_environment
        .command(&["attach", "-i", "-q", "web"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = attached.stdin.take().unwrap();
    input.write_all(b"you\n").unwrap();
    let mut output = BufReader::new(attached.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "heard you");
    assert_eq!(log.next().unwrap().unwrap(), "heard you");
    for mut child in [attached, following] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let k3_command_for = |line: &str| pod_environment.k3_output(line);
    assert_eq!(pod_environment.kubectl("logs web --tail=1"), "heard you\n");
    assert_eq!(k3_command_for("logs web --tail=1"), "heard you\n");
    assert_eq!(k3_command_for("logs web"), pod_environment.kubectl("logs web"));
    assert_eq!(
        k3_command_for("logs -l app=web --prefix --tail=1"),
        "[pod/web/main] heard you\n"
    );
    let stamped = pod_environment.kubectl("logs web --tail=1 --timestamps");
    assert!(
        stamped.starts_with("20") && stamped.ends_with("Z heard you\n"),
        "{stamped}"
    );
    assert_eq!(pod_environment.kubectl("logs web --limit-bytes=3"), "rea");
}

fn forwards_a_port(pod_environment: &PodTestEnvironment) {
    let mut forwarding = pod_environment
        .command(&["port-forward", "pod/web", ":8080", "--address=127.0.0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forwarding.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let (_, rest) = line.split_once("127.0.0.1:").expect("kubectl prints the port");
    let port: u16 = rest.split(' ').next().unwrap().parse().unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(TIMEOUT)).unwrap();
    connection.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("200 OK") && answer.ends_with("welcome\n"),
        "{answer}"
    );
    forwarding.kill().unwrap();
    forwarding.wait().unwrap();
}

fn copies_files(pod_environment: &PodTestEnvironment) {
    let there = pod_environment.cluster.file("there", "some content\n");
    pod_environment.kubectl(&format!("cp {} web:/tmp/there", there.display()));
    let back = pod_environment.cluster.path("back");
    pod_environment.kubectl(&format!("cp web:/tmp/there {back}"));
    assert_eq!(fs::read_to_string(back).unwrap(), "some content\n");
}

/// An ephemeral container sees the processes of its target.
fn is_debugged(pod_environment: &PodTestEnvironment) {
    let image = format!("--image={TEST_IMAGE}");
    let debug = [
        "debug",
        "web",
        "-q",
        &image,
        "--image-pull-policy=Never",
        "--container=look",
    ];
    let what = ["--target=main", "--profile=general", "--", "ps"];
    pod_environment.kubectl_with(&[&debug[..], &what[..]].concat());
    let ended =
        "wait pod/web --for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0";
    pod_environment.kubectl(&format!("{ended} --timeout=120s"));
    let seen = pod_environment.kubectl("logs web -c look");
    assert!(seen.contains("httpd -p 8080"), "{seen}");
}

fn is_measured(pod_environment: &PodTestEnvironment) {
    let of_pod = "top pod web --no-headers";
    for top in [pod_environment.kubectl(of_pod), pod_environment.k3_output(of_pod)] {
        let columns: Vec<_> = top.split_whitespace().collect();
        assert!(
            columns[0] == "web" && columns[1].ends_with('m') && columns[2].ends_with("Mi"),
            "{top}"
        );
    }
    let of_node = format!("top node {} --no-headers", pod_environment.name);
    for top in [
        pod_environment.kubectl(&of_node),
        pod_environment.k3_output(&of_node),
    ] {
        assert!(top.contains('%'), "{top}");
    }
}
