//! Unmounting volumes and removing pod directories.

use std::os::unix::fs::symlink;

use super::*;

fn pod_with_empty_dir() -> Pod {
    pod(
        json!([{"name": "v", "emptyDir": {}}]),
        json!([{"name": "v", "mountPath": "/v"}]),
    )
}

#[tokio::test]
async fn does_not_remove_targets_of_symlinks() {
    let fixture = VolumeFixture::new();
    fixture.mount_volumes(&pod_with_empty_dir()).await.unwrap();
    let outside = fixture.temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    symlink(&outside, fixture.volume_path("empty-dir", "v").join("link")).unwrap();
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(!fixture.pod_directory().exists());
    assert!(outside.join("precious").exists());
}

#[tokio::test]
async fn keeps_directories_with_foreign_mounts() {
    let fixture = VolumeFixture::new();
    fixture.mount_volumes(&pod_with_empty_dir()).await.unwrap();
    let mount_point = fixture.volume_path("empty-dir", "v").join("foreign");
    fs::create_dir(&mount_point).unwrap();
    mount_table::mount_tmpfs(&mount_point, Some(1 << 20)).unwrap();
    fs::write(mount_point.join("precious"), "x").unwrap();
    let error = fixture
        .volumes
        .remove_pod_directory(&identity())
        .await
        .unwrap_err();
    assert!(matches!(error, VolumeManagerError::ForeignMount(_)), "{error}");
    assert!(mount_point.join("precious").exists());
    assert_eq!(fixture.volumes.list_pods_from_disk().await.unwrap(), ["u1"]);
    mount_table::unmount(&mount_point).unwrap();
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(fixture.volumes.list_pods_from_disk().await.unwrap().is_empty());
}

#[tokio::test]
async fn removes_pod_directories_after_restart() {
    let fixture = VolumeFixture::new();
    let pod = pod(
        json!([{"name": "ram", "emptyDir": {"medium": "Memory"}}]),
        json!([{"name": "ram", "mountPath": "/r", "subPath": "sub"}]),
    );
    assert!(fixture.volumes.list_pods_from_disk().await.unwrap().is_empty());
    fixture.mount_volumes(&pod).await.unwrap();
    fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(fixture.mount_count(), 2);
    let restarted = fixture.restart();
    assert_eq!(restarted.list_pods_from_disk().await.unwrap(), ["u1"]);
    restarted.remove_pod_directory(&identity()).await.unwrap();
    assert_eq!(fixture.mount_count(), 0);
    assert!(restarted.list_pods_from_disk().await.unwrap().is_empty());
    restarted.remove_pod_directory(&identity()).await.unwrap();
}

#[tokio::test]
async fn keeps_termination_messages_until_the_pod_is_deleted() {
    let fixture = VolumeFixture::new();
    fixture.mount_volumes(&pod_with_empty_dir()).await.unwrap();
    let container_directory = fixture.volumes.directories().container("u1", "c");
    fs::create_dir_all(&container_directory).unwrap();
    fs::write(container_directory.join("message"), "bye").unwrap();
    fixture.volumes.unmount_pod_volumes(&identity()).await.unwrap();
    assert!(!fixture.volume_path("empty-dir", "v").exists());
    assert!(container_directory.join("message").exists());
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(!container_directory.exists());
}

#[tokio::test]
async fn fails_while_a_volume_is_in_use_and_succeeds_later() {
    let fixture = VolumeFixture::new();
    fixture.put_secret("keys", &json!({"key": "c2VjcmV0"}));
    let pod = pod(
        json!([{"name": "keys", "secret": {"secretName": "keys"}}]),
        json!([{"name": "keys", "mountPath": "/k"}]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    let open = fs::File::open(fixture.volume_path("secret", "keys").join("key")).unwrap();
    assert!(fixture.volumes.remove_pod_directory(&identity()).await.is_err());
    drop(open);
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert_eq!(fixture.mount_count(), 0);
}
