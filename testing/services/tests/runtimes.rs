//! What tests rely on when they ask for a runtime of containers.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use k3_test_services::{Containerd, Docker, PAUSE_IMAGE, Podman, TEST_IMAGE, find_program};

#[test]
fn a_docker_runs_a_container_and_leaves_nothing_behind() {
    let docker = Docker::start().unwrap();
    docker.load_test_images().unwrap();
    docker.load_test_images().unwrap();
    let created = request(
        docker.socket(),
        "POST",
        "/containers/create?name=left",
        &format!(r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","4711"]}}"#),
    );
    assert!(created.contains("\"Id\""), "{created}");
    request(docker.socket(), "POST", "/containers/left/start", "");
    ends_clean(docker, Docker::socket);
}

#[test]
fn a_podman_runs_a_container_and_leaves_nothing_behind() {
    let podman = Podman::start().unwrap();
    podman.load_test_images().unwrap();
    podman.load_test_images().unwrap();
    let created = request(
        podman.socket(),
        "POST",
        "/containers/create?name=left",
        &format!(r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","4711"]}}"#),
    );
    assert!(created.contains("\"Id\""), "{created}");
    request(podman.socket(), "POST", "/containers/left/start", "");
    ends_clean(podman, Podman::socket);
}

#[test]
fn a_containerd_has_the_images_and_leaves_nothing_behind() {
    let containerd = Containerd::start().unwrap();
    containerd.load_test_images().unwrap();
    let client = find_program("ctr").unwrap();
    let ctr = |args: &[&str]| {
        Command::new(&client)
            .arg("--address")
            .arg(containerd.socket())
            .args(["--namespace", "k8s.io"])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let listed = String::from_utf8(ctr(&["images", "list", "--quiet"]).stdout).unwrap();
    for image in [TEST_IMAGE, PAUSE_IMAGE] {
        assert!(listed.lines().any(|line| line == image), "{listed}");
    }
    // As ids of containers are: those are looked for when everything is undone.
    let id = format!("{:064x}", std::process::id());
    let ran = ctr(&["run", "--detach", TEST_IMAGE, &id, "sleep", "4711"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ends_clean(containerd, Containerd::socket);
}

/// Neither processes, nor mounts, nor directories that name the service are there after its end; they are before.
fn ends_clean<S>(service: S, socket: fn(&S) -> &Path) {
    let directory = socket(&service).parent().unwrap().to_owned();
    assert!(
        !processes_of(&directory).is_empty(),
        "nothing runs under {}",
        directory.display()
    );
    drop(service);
    wait_until_no_process_names(&directory);
    assert!(!mounts().contains(directory.to_str().unwrap()));
    assert!(!directory.exists());
}

/// Others' containers copy all mounts for a moment when they begin, and then name the directory, too.
#[expect(
    clippy::disallowed_methods,
    reason = "the end of another process is seen only by looking"
)]
fn wait_until_no_process_names(directory: &Path) {
    let start = std::time::Instant::now();
    loop {
        let left = processes_of(directory);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "{left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes whose command or root directory names the directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let process = entry.unwrap().path();
            let command = fs::read(process.join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let is_contained = fs::read_link(process.join("ns/mnt")).is_ok_and(|namespace| namespace != own)
                && fs::read_to_string(process.join("mountinfo"))
                    .is_ok_and(|mounts| mounts.contains(directory));
            (command.contains(directory) || is_contained).then_some(command)
        })
        .collect()
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

fn request(socket: &Path, method: &str, path: &str, body: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
