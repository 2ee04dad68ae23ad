//! Sub paths, and attacks on them by containers.

use std::{
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// A pod that mounts a sub path of an emptyDir, and the path of the volume.
async fn pod_with_sub_path(fixture: &VolumeFixture, sub_path: &str) -> (Pod, PathBuf) {
    let pod = pod(
        json!([{"name": "v", "emptyDir": {}}]),
        json!([{"name": "v", "mountPath": "/v", "subPathExpr": sub_path}]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    (pod, fixture.volume_path("empty-dir", "v"))
}

#[tokio::test]
async fn creates_and_bind_mounts_sub_path() {
    let fixture = VolumeFixture::new();
    let (pod, volume) = pod_with_sub_path(&fixture, "logs/$(POD)").await;
    let path = fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(path, fixture.pod_directory().join("volume-subpaths/v/c/0"));
    let created = volume.join("logs/web");
    assert_eq!((mode(&created), mode(&volume.join("logs"))), (0o777, 0o777));
    fs::write(created.join("x"), "1").unwrap();
    assert_eq!(fs::read_to_string(path.join("x")).unwrap(), "1");
    assert_eq!(fixture.mounted_path(&pod).await.unwrap(), path);
    assert_eq!(fixture.mount_count(), 1, "nothing is mounted twice");

    // The container replaced the directory: the next mount uses the new one.
    fs::rename(&created, volume.join("old")).unwrap();
    fixture.mounted_path(&pod).await.unwrap();
    assert!(!path.join("x").exists());
    assert_eq!(fixture.mount_count(), 1);

    // A file is mounted as a file.
    fs::remove_dir(volume.join("logs/web")).unwrap();
    fs::write(volume.join("logs/web"), "file").unwrap();
    fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "file");
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert_eq!(fixture.mount_count(), 0);
    assert!(!fixture.pod_directory().exists());
}

#[tokio::test]
async fn follows_symlinks_in_the_volume_only() {
    let fixture = VolumeFixture::new();
    let outside = fixture.temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "x").unwrap();
    let rejected = [
        outside.to_str().unwrap().to_owned(),
        "/etc".to_owned(),
        "../../../../../../outside".to_owned(),
        "inside/../../x".to_owned(),
        "/proc/self/root".to_owned(),
        "link".to_owned(),
        "broken".to_owned(),
    ];
    for target in rejected {
        let (pod, volume) = pod_with_sub_path(&fixture, "link/deeper").await;
        let _ = fs::remove_file(volume.join("link"));
        symlink(&target, volume.join("link")).unwrap();
        let error = fixture.mounted_path(&pod).await.unwrap_err().to_string();
        let expected = "failed to create subPath directory for volumeMount \"v\" of container \"c\"";
        assert_eq!(error, expected, "{target}");
        assert_eq!(fixture.mount_count(), 0, "{target}");
    }
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        1,
        "nothing was created outside the volume"
    );

    let (pod, volume) = pod_with_sub_path(&fixture, "link/deeper").await;
    fs::remove_file(volume.join("link")).unwrap();
    fs::create_dir_all(volume.join("inside/real")).unwrap();
    symlink("./inside/../inside/real", volume.join("link")).unwrap();
    let path = fixture.mounted_path(&pod).await.unwrap();
    fs::write(volume.join("inside/real/deeper/x"), "1").unwrap();
    assert_eq!(fs::read_to_string(path.join("x")).unwrap(), "1");
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
}

#[tokio::test]
async fn sub_path_of_config_map_is_not_updated_in_running_containers() {
    let fixture = VolumeFixture::new();
    fixture.put_config_map("settings", &json!({"a": "1"}));
    let pod = pod(
        json!([{"name": "conf", "configMap": {"name": "settings"}}]),
        json!([{"name": "conf", "mountPath": "/a", "subPath": "a"}]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    let path = fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    fixture.put_config_map("settings", &json!({"a": "2"}));
    fixture.mount_volumes(&pod).await.unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "1",
        "a mounted sub path is not updated"
    );
    fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "2",
        "the next container sees the new version"
    );
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn symlink_race_does_not_escape_the_volume() {
    let fixture = VolumeFixture::new();
    let outside = fixture.temp.path().join("outside");
    fs::create_dir_all(outside.join("deeper")).unwrap();
    fs::write(outside.join("deeper/secret"), "x").unwrap();
    let (pod, volume) = pod_with_sub_path(&fixture, "swapped/deeper").await;
    fs::create_dir_all(volume.join("good/deeper")).unwrap();
    symlink(&outside, volume.join("bad")).unwrap();
    fs::create_dir(volume.join("swapped")).unwrap();

    let is_done = AtomicBool::new(false);
    let mut mounted = 0;
    std::thread::scope(|scope| {
        // Swaps the directory and the symlink atomically, so that the path always exists.
        scope.spawn(|| {
            let volume_fd = fs::File::open(&volume).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                for name in ["good", "bad"] {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(&volume_fd, name, &volume_fd, "swapped", flags).unwrap();
                }
            }
        });
        let handle = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            let mut tries = 0;
            // At least one attempt must see the directory, however rarely the threads alternate.
            while tries < 300 || mounted == 0 {
                tries += 1;
                if let Ok(path) = handle.block_on(fixture.mounted_path(&pod)) {
                    mounted += 1;
                    assert!(
                        !path.join("secret").exists(),
                        "a host directory outside the volume is mounted"
                    );
                }
            }
        });
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(outside.join("deeper/secret").exists());
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(outside.join("deeper/secret").exists());
}
