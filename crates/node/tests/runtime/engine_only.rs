//! What holds of Docker and Podman alone: the names by which people find containers.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use k3_node::runtime::{HostEntry, LogOptions, Owner, RuntimeError, SandboxId};
use k3_test_services::TEST_IMAGE;

use crate::{
    places::{self, Place},
    world::World,
};

macro_rules! engines {
    ($($claim:ident,)*) => {
        mod docker { $( #[tokio::test] async fn $claim() { super::$claim(super::places::docker()).await; } )* }
        mod podman { $( #[tokio::test] async fn $claim() { super::$claim(super::places::podman()).await; } )* }
    };
}

engines!(
    names_are_those_that_people_know,
    a_foreign_holder_of_a_name_is_left_alone,
    a_name_that_another_cluster_has_gets_a_suffix,
    containers_without_a_cluster_are_adopted_by_their_pod,
    lines_of_the_hosts_file_are_written,
    what_was_made_and_not_begun_makes_room,
);

async fn names_are_those_that_people_know(place: Place) {
    let world = World::new(&place).await;
    let pod = world.pod().await;
    let namespace = &pod.spec.pod.namespace;
    let name = &pod.spec.pod.name;
    let live = format!("k8s_{namespace}_{name}_main");
    let first = world.start(&pod, &world.script("exit 1")).await;
    assert_eq!(id_of(&place, &live), first.0);
    assert_eq!(
        id_of(&place, &format!("k8s_{namespace}_{name}_POD")),
        pod.sandbox.0
    );
    world.exit(&first).await;
    let mut spec = world.script("sleep 1000");
    spec.attempt = 1;
    let second = world.start(&pod, &spec).await;
    assert_eq!(id_of(&place, &live), second.0);
    assert_eq!(id_of(&place, &format!("{live}_{}_0", pod.spec.pod.uid)), first.0);
    // The log of the one before is still there.
    assert_eq!(world.log(&first, &LogOptions::default()).await, "");
    // A pod of the same name that still runs makes room as well.
    let mut again = pod.spec.clone();
    again.pod.uid.push_str("-again");
    let next = world.run(again).await;
    assert_eq!(
        id_of(&place, &format!("k8s_{namespace}_{name}_POD")),
        next.sandbox.0
    );
    assert!(world.container(&second).await.unwrap().is_running());
    world.end().await;
}

async fn a_name_that_another_cluster_has_gets_a_suffix(place: Place) {
    let world = World::new(&place).await;
    let pod = world.pod().await;
    let owner = Owner::new(&world.owner.node, "12345678-another");
    let other = world.connect_owner(owner).await;
    let mut spec = pod.spec.clone();
    spec.pod.uid.push_str("-other");
    let sandbox = other.run_sandbox(&spec).await.unwrap();
    let usual = format!("k8s_{}_{}_POD", spec.pod.namespace, spec.pod.name);
    assert_eq!(id_of(&place, &usual), pod.sandbox.0);
    assert_eq!(id_of(&place, &format!("{usual}_12345678")), sandbox.0);
    other.remove_sandbox(&sandbox).await.unwrap();
    world.end().await;
}

async fn containers_without_a_cluster_are_adopted_by_their_pod(place: Place) {
    let world = World::new(&place).await;
    // As versions before the label of the cluster made them.
    let node = &world.owner.node;
    let name = format!("k8s_{node}_old_POD");
    let body = format!(
        r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","1000"],"Labels":{{"io.kubernetes.docker.type":"podsandbox",
            "io.kubernetes.pod.name":"old","io.kubernetes.pod.namespace":"{node}","io.kubernetes.pod.uid":"{node}-old",
            "io.kubernetes.container.name":"POD","k3.io/node":"{node}","k3.io/attempt":"0"}}}}"#
    );
    let made = request(&place, "POST", &format!("/containers/create?name={name}"), &body);
    assert!(made.contains("\"Id\""), "{made}");
    let id = SandboxId(id_of(&place, &name));
    assert_eq!(
        world.runtime.sandboxes().await.unwrap(),
        [],
        "it may be of another cluster"
    );
    assert!(world.runtime.remove_sandbox(&id).await.is_err());
    assert_eq!(world.runtime.other_clusters().await.unwrap()[""], 1);
    world.owner.adopted.add(&format!("{node}-old"));
    let found = world.runtime.sandboxes().await.unwrap();
    assert_eq!(found.iter().map(|sandbox| &sandbox.id).collect::<Vec<_>>(), [&id]);
    assert!(!world.runtime.other_clusters().await.unwrap().contains_key(""));
    // Removed at the end as one of ours.
    world.end().await;
}

async fn a_foreign_holder_of_a_name_is_left_alone(place: Place) {
    let world = World::new(&place).await;
    let pod = world.pod().await;
    let name = format!("k8s_{}_{}_main", pod.spec.pod.namespace, pod.spec.pod.name);
    let body = format!(r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","1000"]}}"#);
    let made = request(&place, "POST", &format!("/containers/create?name={name}"), &body);
    assert!(made.contains("\"Id\""), "{made}");
    let holder = id_of(&place, &name);
    let error = world
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &world.script("true"))
        .await
        .unwrap_err();
    let RuntimeError::NameTaken {
        name: taken,
        holder: told,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((taken, told), (&name, &holder));
    assert!(error.to_string().contains(&name));
    let id = k3_node::runtime::ContainerId(holder.clone());
    assert!(world.runtime.remove_container(&id).await.is_err());
    assert!(world.runtime.stop_container(&id, Duration::ZERO).await.is_err());
    assert_eq!(id_of(&place, &name), holder);
    request(&place, "DELETE", &format!("/containers/{holder}?force=1"), "");
    world.end().await;
}

async fn lines_of_the_hosts_file_are_written(place: Place) {
    let world = World::new(&place).await;
    let mut spec = world.pod_spec();
    spec.hosts = vec![HostEntry {
        ip: "10.1.2.3".into(),
        names: vec!["one.test".into(), "two.test".into()],
    }];
    let pod = world.run(spec).await;
    let (output, _) = world.output_of(&pod, &world.script("cat /etc/hosts")).await;
    for name in ["one.test", "two.test", &pod.spec.hostname] {
        assert!(
            output
                .lines()
                .any(|line| line.split_whitespace().any(|word| word == name)),
            "{name}: {output}"
        );
    }
    world.end().await;
}

async fn what_was_made_and_not_begun_makes_room(place: Place) {
    let world = World::new(&place).await;
    let pod = world.pod().await;
    let spec = world.script("true");
    let lost = world
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap();
    // The agent was killed here, and begins the same attempt again.
    let id = world.start(&pod, &spec).await;
    assert_ne!(id, lost);
    assert_eq!(world.container(&lost).await, None);
    assert_eq!(world.exit(&id).await.code, 0);
    world.end().await;
}

fn id_of(place: &Place, name: &str) -> String {
    let answer = request(place, "GET", &format!("/containers/{name}/json"), "");
    let (_, rest) = answer
        .split_once("\"Id\":\"")
        .unwrap_or_else(|| panic!("{name}: {answer}"));
    rest.chars().take_while(|sign| *sign != '"').collect()
}

fn request(place: &Place, method: &str, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(place.socket).unwrap();
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
