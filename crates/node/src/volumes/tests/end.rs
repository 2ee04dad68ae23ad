//! The end of pods.

use std::os::unix::fs::symlink;

use super::*;

fn empty() -> Pod {
    pod(
        json!([{"name": "v", "emptyDir": {}}]),
        json!([{"name": "v", "mountPath": "/v"}]),
    )
}

#[tokio::test]
async fn nothing_goes_through_a_link_that_a_container_left() {
    let world = World::new();
    world.prepare(&empty()).await.unwrap();
    let outside = world.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    symlink(&outside, world.volume("empty-dir", "v").join("link")).unwrap();
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(!world.pod_folder().exists());
    assert!(outside.join("precious").exists());
}

#[tokio::test]
async fn a_mount_that_is_not_ours_is_left_alone_with_its_folder() {
    let world = World::new();
    world.prepare(&empty()).await.unwrap();
    let inside = world.volume("empty-dir", "v").join("theirs");
    fs::create_dir(&inside).unwrap();
    mount_table::tmpfs(&inside, Some(1 << 20)).unwrap();
    fs::write(inside.join("precious"), "x").unwrap();
    let error = world.volumes.tear_down(&identity()).await.unwrap_err();
    assert!(matches!(error, VolumeError::Foreign(_)), "{error}");
    assert!(inside.join("precious").exists());
    assert_eq!(world.volumes.left_behind().await.unwrap(), ["u1"]);
    mount_table::take_away(&inside).unwrap();
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(world.volumes.left_behind().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_crash_left_is_found_and_taken_away() {
    let world = World::new();
    let pod = pod(
        json!([{"name": "ram", "emptyDir": {"medium": "Memory"}}]),
        json!([{"name": "ram", "mountPath": "/r", "subPath": "part"}]),
    );
    assert!(world.volumes.left_behind().await.unwrap().is_empty());
    world.prepare(&pod).await.unwrap();
    world.mounted(&pod).await.unwrap();
    assert_eq!(world.mount_count(), 2);
    let again = world.restarted();
    assert_eq!(again.left_behind().await.unwrap(), ["u1"]);
    again.tear_down(&identity()).await.unwrap();
    assert_eq!(world.mount_count(), 0);
    assert!(again.left_behind().await.unwrap().is_empty());
    again.tear_down(&identity()).await.unwrap();
}

#[tokio::test]
async fn what_containers_said_stays_until_the_pod_is_gone() {
    let world = World::new();
    world.prepare(&empty()).await.unwrap();
    let said = world.volumes.layout().container("u1", "c");
    fs::create_dir_all(&said).unwrap();
    fs::write(said.join("message"), "bye").unwrap();
    world.volumes.release(&identity()).await.unwrap();
    assert!(!world.volume("empty-dir", "v").exists());
    assert!(said.join("message").exists());
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(!said.exists());
}

#[tokio::test]
async fn a_volume_in_use_is_an_error_and_goes_later() {
    let world = World::new();
    world.put_secret("keys", &json!({"key": "c2VjcmV0"}));
    let pod = pod(
        json!([{"name": "keys", "secret": {"secretName": "keys"}}]),
        json!([{"name": "keys", "mountPath": "/k"}]),
    );
    world.prepare(&pod).await.unwrap();
    let open = fs::File::open(world.volume("secret", "keys").join("key")).unwrap();
    assert!(world.volumes.tear_down(&identity()).await.is_err());
    drop(open);
    world.volumes.tear_down(&identity()).await.unwrap();
    assert_eq!(world.mount_count(), 0);
}
