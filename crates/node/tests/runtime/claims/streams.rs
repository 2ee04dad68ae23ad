//! Commands, terminals and logs.

use std::{path::PathBuf, time::Duration};

use futures_util::StreamExt;
use k3_node::runtime::{
    Attached, ContainerSpec, ExecSpec, LogOptions, LogStream, Mount, MountSource, Propagation, RuntimeError,
    TerminalSize,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{World, eventually, soon};

pub(crate) async fn a_command_tells_its_output_and_its_code(world: &World) {
    let id = world.start_script("sleep 1000").await;
    let command = ["sh", "-c", "echo out; echo err >&2; exit 5"].map(String::from);
    let output = world
        .runtime
        .exec_sync(&id, &command, Duration::from_mins(1))
        .await
        .unwrap();
    assert_eq!(
        (output.code, output.stdout, output.stderr),
        (5, b"out\n".to_vec(), b"err\n".to_vec())
    );
    // More than what waits anywhere on the way.
    let command = [
        "sh",
        "-c",
        "head -c 3000000 /dev/zero; head -c 1000 /dev/zero >&2",
    ]
    .map(String::from);
    let output = world
        .runtime
        .exec_sync(&id, &command, Duration::from_mins(1))
        .await
        .unwrap();
    assert_eq!(
        (output.code, output.stdout.len(), output.stderr.len()),
        (0, 3_000_000, 1_000)
    );
}

pub(crate) async fn a_command_that_takes_too_long_is_given_up(world: &World) {
    let id = world.start_script("sleep 1000").await;
    let command = ["sh", "-c", "exec sleep 4712"].map(String::from);
    let error = world
        .runtime
        .exec_sync(&id, &command, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error:?}");
    eventually("the command is ended", async || {
        let left = world
            .exec(&id, "ps -o args | grep -v grep | grep -c 'sleep 4712' || true")
            .await;
        (left.trim() == "0").then_some(())
    })
    .await;
}

pub(crate) async fn a_command_reads_what_it_is_sent(world: &World) {
    let id = world.start_script("sleep 1000").await;
    let spec = ExecSpec {
        command: ["sh", "-c", "cat; echo done >&2; exit 3"].map(Into::into).into(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let attached = world.runtime.exec(&id, &spec).await.unwrap();
    let (stdout, stderr, code) = soon(
        "the end of the command",
        converse(attached, b"line one\nline two\n"),
    )
    .await;
    assert_eq!(
        (stdout.as_str(), stderr.as_str(), code),
        ("line one\nline two\n", "done\n", 3)
    );
}

pub(crate) async fn a_terminal_has_a_size(world: &World) {
    let id = world.start_script("sleep 1000").await;
    let spec = ExecSpec {
        // Asks until it is told.
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
    let attached = world.runtime.exec(&id, &spec).await.unwrap();
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
    let told = async {
        let (code, read) = tokio::join!(attached.done, stdout.read_to_string(&mut output));
        read.unwrap();
        code.unwrap()
    };
    assert_eq!(soon("the terminal's size", told).await, 4);
    assert!(
        output.contains("40 120\r\n") && output.contains("/dev/"),
        "{output:?}"
    );
}

pub(crate) async fn a_container_can_be_attached_to(world: &World) {
    let pod = world.pod().await;
    let mut spec =
        world.script("while read line; do echo got $line; echo err >&2; [ $line = end ] && exit 6; done");
    (spec.stdin, spec.stdin_once) = (true, true);
    let id = world.start(&pod, &spec).await;
    let wanted = ExecSpec {
        stdin: true,
        stdout: true,
        stderr: true,
        ..ExecSpec::default()
    };
    let attached = world.runtime.attach(&id, &wanted).await.unwrap();
    let (stdout, stderr, _) = soon("the end of the container", converse(attached, b"one\nend\n")).await;
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("got one\ngot end\n", "err\nerr\n")
    );
    assert_eq!(world.exit(&id).await.code, 6);
}

pub(crate) async fn logs_are_read_in_parts(world: &World) {
    // Runtimes read the two streams apart: what comes on both at once is in no order, so each line waits for the one before.
    // The pause in the middle: Podman tells times in seconds.
    let script = "step() { until [ -e /go/$1 ]; do sleep 0.02; done; }; \
                  for i in 1 2 3 4; do echo out $i; step out$i; echo err $i >&2; step err$i; \
                  [ $i != 2 ] || sleep 1.2; done; printf unended";
    let pod = world.pod().await;
    let mut spec = world.script(script);
    let go = go_ahead(world, &mut spec);
    let id = world.start(&pod, &spec).await;
    for i in 1..=4 {
        for line in [format!("out {i}"), format!("err {i}")] {
            eventually(&line, async || {
                let log = world.log(&id, &LogOptions::default()).await;
                log.contains(&line).then_some(())
            })
            .await;
            std::fs::write(go.join(line.replace(' ', "")), "").unwrap();
        }
    }
    world.exit(&id).await;
    let all: Vec<_> = world
        .runtime
        .logs(&id, &LogOptions::default())
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

    let part = async |options: LogOptions| world.log(&id, &options).await;
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

pub(crate) async fn a_log_is_followed_to_its_end(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("echo first; until [ -e /go/on ]; do sleep 0.05; done; echo second");
    let go = go_ahead(world, &mut spec);
    let id = world.start(&pod, &spec).await;
    let follow = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let mut lines = world.runtime.logs(&id, &follow).await.unwrap();
    let first = soon("the first line", lines.next()).await.unwrap().unwrap();
    assert_eq!(first.bytes, "first\n");
    // Only now does it write the second.
    std::fs::write(go.join("on"), "").unwrap();
    let second = soon("the second line", lines.next()).await.unwrap().unwrap();
    assert_eq!(second.bytes, "second\n");
    let end = soon("the end of the log", lines.next()).await;
    assert!(end.is_none(), "{end:?}");
}

pub(crate) async fn the_log_of_a_terminal_is_read(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("echo one; echo two >&2");
    (spec.tty, spec.stdin) = (true, true);
    let (output, code) = world.output_of(&pod, &spec).await;
    assert_eq!((output.replace('\r', "").as_str(), code), ("one\ntwo\n", 0));
}

/// A folder that the container sees as `/go`: files in it tell it to go on.
fn go_ahead(world: &World, spec: &mut ContainerSpec) -> PathBuf {
    let folder = world.folder().join("go");
    std::fs::create_dir(&folder).unwrap();
    spec.mounts = vec![Mount {
        source: MountSource::Host(folder.clone()),
        target: "/go".into(),
        read_only: true,
        propagation: Propagation::default(),
        recursive_read_only: false,
    }];
    folder
}

/// Sends input, and waits for everything that comes back.
async fn converse(attached: Attached, input: &[u8]) -> (String, String, i32) {
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
