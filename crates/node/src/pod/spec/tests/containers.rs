//! Container configuration and annotations.

use super::{
    super::{ContainerAnnotations, ephemeral_as_container, hash_container},
    *,
};
use crate::runtime::ContainerId;

#[test]
fn container_config_follows_the_spec() {
    let pod = pod(json!({
        "terminationGracePeriodSeconds": 20,
        "containers": [{
            "name": "a", "image": "busybox", "command": ["sh", "-c"], "args": ["echo $(A) $(C) $$(A) $(B)"],
            "workingDir": "/w", "stdin": true, "tty": true,
            "terminationMessagePath": "/dev/log", "terminationMessagePolicy": "File",
            "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}},
        }],
    }));
    let image = Image {
        id: "sha256:1".to_owned(),
        ..Image::default()
    };
    let config = container_of(&pod, &image).unwrap();
    assert_eq!(
        (&*config.name, config.attempt, &*config.image, &*config.user_image),
        ("a", 4, "sha256:1", "busybox")
    );
    assert_eq!(config.command, ["sh", "-c"]);
    assert_eq!(config.args, ["echo 1 $(C) $(A) two"]);
    assert_eq!(
        (&*config.working_dir, config.stdin, config.stdin_once, config.tty),
        ("/w", true, false, true)
    );
    assert_eq!(config.env.len(), 2);
    let found = ContainerAnnotations::parse(&config.annotations);
    assert_eq!(
        found.hash,
        Some(hash_container(&pod.spec.as_ref().unwrap().containers[0]))
    );
    assert_eq!(
        (found.restarts, found.termination_grace, found.deletion_grace),
        (Some(4), Some(20), None)
    );
    assert_eq!(
        (&*found.message_path, &*found.message_policy),
        ("/dev/log", "File")
    );
    let bye = found.pre_stop.unwrap().exec.unwrap().command.unwrap();
    assert_eq!(bye, ["bye"]);
}

#[test]
fn hash_changes_with_the_image_only_and_is_stable() {
    let of = |container: Value| hash_container(&serde_json::from_value(container).unwrap());
    let one = of(json!({"name": "a", "image": "x"}));
    assert_eq!(one, "22e4bd9e");
    assert_eq!(
        of(json!({"name": "a", "image": "x", "env": [{"name": "B"}], "resources": {}})),
        one
    );
    assert_ne!(of(json!({"name": "a", "image": "y"})), one);
    assert_ne!(of(json!({"name": "b", "image": "x"})), one);
}

#[test]
fn ephemeral_container_joins_the_pid_namespace_of_its_target() {
    let target = ContainerId("t".to_owned());
    for (shares, kind, expected) in [
        (false, ContainerType::Ephemeral, Some(&target)),
        (true, ContainerType::Ephemeral, None),
        (false, ContainerType::Regular, None),
    ] {
        let pod = pod(json!({
            "shareProcessNamespace": shares,
            "containers": [{"name": "a"}],
            "ephemeralContainers": [{"name": "debug", "image": "i", "targetContainerName": "a"}],
        }));
        let debug =
            ephemeral_as_container(&pod.spec.as_ref().unwrap().ephemeral_containers.as_ref().unwrap()[0]);
        assert_eq!((&*debug.name, debug.image.as_deref()), ("debug", Some("i")));
        let config = generate_container_config(&ContainerConfigInput {
            pod: &pod,
            container: &debug,
            kind,
            attempt: 0,
            image: &Image::default(),
            environment: &[],
            mounts: &[],
            target: Some(&target),
            facts: &facts(),
        });
        assert_eq!(config.unwrap().process_target.as_ref(), expected);
    }
}
