//! Exec, attach, terminals and logs.

use std::{path::PathBuf, time::Duration};

use futures_util::StreamExt;
use k3_node::runtime::{
    ContainerSpec, ExecSpec, LogOptions, LogStream, Mount, MountPropagation, MountSource, ProcessStreams,
    RuntimeError, TerminalSize,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::test_node::{TestNode, eventually, soon};

pub(crate) async fn exec_sync_returns_output_and_exit_code(node: &TestNode) {
    let id = node.start_script("sleep 1000").await;
    let command = ["sh", "-c", "echo out; echo err >&2; exit 5"].map(String::from);
    let output = node
        .runtime
        .exec_sync(&id, &command, Duration::from_mins(1))
        .await
        .unwrap();
    assert_eq!(
        (output.code, output.stdout, output.stderr),
        (5, b"out\n".to_vec(), b"err\n".to_vec())
    );
    // More than all buffers on the way.
    let command = [
        "sh",
        "-c",
        "head -c 3000000 /dev/zero; head -c 1000 /dev/zero >&2",
    ]
    .map(String::from);
    let output = node
        .runtime
        .exec_sync(&id, &command, Duration::from_mins(1))
        .await
        .unwrap();
    assert_eq!(
        (output.code, output.stdout.len(), output.stderr.len()),
        (0, 3_000_000, 1_000)
    );
}

pub(crate) async fn exec_sync_times_out(node: &TestNode) {
    let id = node.start_script("sleep 1000").await;
    let command = ["sh", "-c", "exec sleep 4712"].map(String::from);
    let error = node
        .runtime
        .exec_sync(&id, &command, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error:?}");
    eventually("the command is killed", async || {
        let left = node
            .exec(&id, "ps -o args | grep -v grep | grep -c 'sleep 4712' || true")
            .await;
        (left.trim() == "0").then_some(())
    })
    .await;
}

pub(crate) async fn exec_streams_stdin(node: &TestNode) {
    let id = node.start_script("sleep 1000").await;
    let spec = ExecSpec {
        command: ["sh", "-c", "cat; echo done >&2; exit 3"].map(Into::into).into(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let attached = node.runtime.exec(&id, &spec).await.unwrap();
    let (stdout, stderr, code) = soon(
        "the end of the command",
        send_and_collect(attached, b"line one\nline two\n"),
    )
    .await;
    assert_eq!(
        (stdout.as_str(), stderr.as_str(), code),
        ("line one\nline two\n", "done\n", 3)
    );
}

pub(crate) async fn exec_resizes_terminal(node: &TestNode) {
    let id = node.start_script("sleep 1000").await;
    let spec = ExecSpec {
        // Polls until the size is set.
        command: [
            "sh",
            "-c",
            "until stty size | grep '40 120'; do sleep 0.05; done; tty; exit 4",
        ]
        .map(Into::into)
        .into(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: true,
    };
    let attached = node.runtime.exec(&id, &spec).await.unwrap();
    assert!(attached.stderr.is_none());
    let resize = attached.resize.clone().unwrap();
    let size = TerminalSize {
        width: 120,
        height: 40,
    };
    resize.send(size).await.unwrap();
    let mut stdout = attached.stdout.unwrap();
    let _stdin = attached.stdin;
    let mut output = String::new();
    let conversation = async {
        let (code, read) = tokio::join!(attached.done, stdout.read_to_string(&mut output));
        read.unwrap();
        code.unwrap()
    };
    assert_eq!(soon("the terminal's size", conversation).await, 4);
    assert!(
        output.contains("40 120\r\n") && output.contains("/dev/"),
        "{output:?}"
    );
}

pub(crate) async fn attaches_to_container(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec =
        node.script("while read line; do echo got $line; echo err >&2; [ $line = end ] && exit 6; done");
    spec.stdin = true;
    spec.stdin_once = true;
    let id = node.start(&pod, &spec).await;
    let spec = ExecSpec {
        stdin: true,
        stdout: true,
        stderr: true,
        ..ExecSpec::default()
    };
    let attached = node.runtime.attach(&id, &spec).await.unwrap();
    let (stdout, stderr, _) = soon(
        "the end of the container",
        send_and_collect(attached, b"one\nend\n"),
    )
    .await;
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("got one\ngot end\n", "err\nerr\n")
    );
    assert_eq!(node.exit(&id).await.code, 6);
}

pub(crate) async fn log_options_select_lines(node: &TestNode) {
    // Runtimes read stdout and stderr separately, without a common order, so each line waits for the previous one.
    // The pause in the middle is for Podman, whose log times are in whole seconds.
    let script = "step() { until [ -e /go/$1 ]; do sleep 0.02; done; }; \
                  for i in 1 2 3 4; do echo out $i; step out$i; echo err $i >&2; step err$i; \
                  [ $i != 2 ] || sleep 1.2; done; printf unended";
    let pod = node.pod().await;
    let mut spec = node.script(script);
    let go = go_ahead(node, &mut spec);
    let id = node.start(&pod, &spec).await;
    for i in 1..=4 {
        for line in [format!("out {i}"), format!("err {i}")] {
            eventually(&line, async || {
                let log = node.log(&id, &LogOptions::default()).await;
                log.contains(&line).then_some(())
            })
            .await;
            std::fs::write(go.join(line.replace(' ', "")), "").unwrap();
        }
    }
    node.exit(&id).await;
    let all: Vec<_> = node
        .runtime
        .container_logs(&id, &LogOptions::default())
        .await
        .unwrap()
        .map(Result::unwrap)
        .collect()
        .await;
    let texts: Vec<_> = all
        .iter()
        .map(|line| String::from_utf8_lossy(&line.bytes).into_owned())
        .collect();
    let expected = [
        "out 1\n", "err 1\n", "out 2\n", "err 2\n", "out 3\n", "err 3\n", "out 4\n", "err 4\n",
    ];
    assert_eq!(texts[..8], expected);
    assert_eq!(texts[8].trim_end(), "unended");
    assert_eq!(
        (all[0].stream, all[1].stream),
        (LogStream::Stdout, LogStream::Stderr)
    );
    assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time), "{all:?}");

    let part = async |options: LogOptions| node.log(&id, &options).await;
    let tail = LogOptions {
        tail: Some(2),
        ..LogOptions::default()
    };
    assert_eq!(part(tail).await.trim_end(), "err 4\nunended");
    let since = LogOptions {
        since: Some(all[4].time),
        ..LogOptions::default()
    };
    assert_eq!(
        part(since).await.trim_end(),
        "out 3\nerr 3\nout 4\nerr 4\nunended"
    );
    let one = LogOptions {
        stream: Some(LogStream::Stderr),
        ..LogOptions::default()
    };
    assert_eq!(part(one).await, "err 1\nerr 2\nerr 3\nerr 4\n");
    let none = LogOptions {
        tail: Some(0),
        ..LogOptions::default()
    };
    assert_eq!(part(none).await, "");
}

pub(crate) async fn follows_log_until_exit(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("echo first; until [ -e /go/on ]; do sleep 0.05; done; echo second");
    let go = go_ahead(node, &mut spec);
    let id = node.start(&pod, &spec).await;
    let follow = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let mut lines = node.runtime.container_logs(&id, &follow).await.unwrap();
    let first = soon("the first line", lines.next()).await.unwrap().unwrap();
    assert_eq!(first.bytes, "first\n");
    // The container writes the second line only now.
    std::fs::write(go.join("on"), "").unwrap();
    let second = soon("the second line", lines.next()).await.unwrap().unwrap();
    assert_eq!(second.bytes, "second\n");
    let end = soon("the end of the log", lines.next()).await;
    assert!(end.is_none(), "{end:?}");
}

pub(crate) async fn reads_log_of_terminal(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("echo one; echo two >&2");
    spec.tty = true;
    spec.stdin = true;
    let (output, code) = node.output_of(&pod, &spec).await;
    assert_eq!((output.replace('\r', "").as_str(), code), ("one\ntwo\n", 0));
}

/// A directory that is mounted at `/go`; files in it signal the container to continue.
fn go_ahead(node: &TestNode, spec: &mut ContainerSpec) -> PathBuf {
    let directory = node.directory().join("go");
    std::fs::create_dir(&directory).unwrap();
    spec.mounts = vec![Mount {
        source: MountSource::Host(directory.clone()),
        target: "/go".into(),
        read_only: true,
        propagation: MountPropagation::default(),
        recursive_read_only: false,
    }];
    directory
}

/// Sends input, and returns both outputs and the exit code.
async fn send_and_collect(attached: ProcessStreams, input: &[u8]) -> (String, String, i32) {
    let mut stdout = attached.stdout.unwrap();
    let mut stderr = attached.stderr.unwrap();
    let mut stdin = attached.stdin.unwrap();
    let mut out = String::new();
    let mut err = String::new();
    let send = async {
        stdin.write_all(input).await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let (code, read_out, read_err, ()) = tokio::join!(
        attached.done,
        stdout.read_to_string(&mut out),
        stderr.read_to_string(&mut err),
        send
    );
    read_out.unwrap();
    read_err.unwrap();
    (out, err, code.unwrap())
}
