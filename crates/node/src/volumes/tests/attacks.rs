//! What containers may try with parts of volumes.

use std::{
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// A pod that mounts a part of a volume, and the volume.
async fn part(world: &World, sub_path: &str) -> (Pod, PathBuf) {
    let pod = pod(
        json!([{"name": "v", "emptyDir": {}}]),
        json!([{"name": "v", "mountPath": "/v", "subPathExpr": sub_path}]),
    );
    world.prepare(&pod).await.unwrap();
    (pod, world.volume("empty-dir", "v"))
}

#[tokio::test]
async fn a_part_of_a_volume_is_made_with_its_mode_and_held_fast() {
    let world = World::new();
    let (pod, volume) = part(&world, "logs/$(POD)").await;
    let place = world.mounted(&pod).await.unwrap();
    assert_eq!(place, world.pod_folder().join("volume-subpaths/v/c/0"));
    let made = volume.join("logs/web");
    assert_eq!((mode(&made), mode(&volume.join("logs"))), (0o777, 0o777));
    fs::write(made.join("x"), "1").unwrap();
    assert_eq!(fs::read_to_string(place.join("x")).unwrap(), "1");
    assert_eq!(world.mounted(&pod).await.unwrap(), place);
    assert_eq!(world.mount_count(), 1, "nothing is mounted twice");

    // Another folder at the same path is another one.
    fs::rename(&made, volume.join("old")).unwrap();
    world.mounted(&pod).await.unwrap();
    assert!(!place.join("x").exists());
    assert_eq!(world.mount_count(), 1);

    // A file is mounted as a file.
    fs::remove_dir(volume.join("logs/web")).unwrap();
    fs::write(volume.join("logs/web"), "file").unwrap();
    world.mounted(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(&place).unwrap(), "file");
    world.volumes.tear_down(&identity()).await.unwrap();
    assert_eq!(world.mount_count(), 0);
    assert!(!world.pod_folder().exists());
}

#[tokio::test]
async fn links_lead_where_they_say_within_the_volume_only() {
    let world = World::new();
    let outside = world.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "x").unwrap();
    let refused = [
        outside.to_str().unwrap().to_owned(),
        "/etc".to_owned(),
        "../../../../../../outside".to_owned(),
        "inside/../../x".to_owned(),
        "/proc/self/root".to_owned(),
        "link".to_owned(),
        "broken".to_owned(),
    ];
    for target in refused {
        let (pod, volume) = part(&world, "link/deeper").await;
        let _ = fs::remove_file(volume.join("link"));
        symlink(&target, volume.join("link")).unwrap();
        let told = world.mounted(&pod).await.unwrap_err().to_string();
        let words = "failed to create subPath directory for volumeMount \"v\" of container \"c\"";
        assert_eq!(told, words, "{target}");
        assert_eq!(world.mount_count(), 0, "{target}");
    }
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        1,
        "nothing was made outside"
    );

    let (pod, volume) = part(&world, "link/deeper").await;
    fs::remove_file(volume.join("link")).unwrap();
    fs::create_dir_all(volume.join("inside/real")).unwrap();
    symlink("./inside/../inside/real", volume.join("link")).unwrap();
    let place = world.mounted(&pod).await.unwrap();
    fs::write(volume.join("inside/real/deeper/x"), "1").unwrap();
    assert_eq!(fs::read_to_string(place.join("x")).unwrap(), "1");
    world.volumes.tear_down(&identity()).await.unwrap();
}

#[tokio::test]
async fn a_key_of_a_config_map_can_be_mounted_by_itself() {
    let world = World::new();
    world.put_config_map("settings", &json!({"a": "1"}));
    let pod = pod(
        json!([{"name": "conf", "configMap": {"name": "settings"}}]),
        json!([{"name": "conf", "mountPath": "/a", "subPath": "a"}]),
    );
    world.prepare(&pod).await.unwrap();
    let place = world.mounted(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(&place).unwrap(), "1");
    world.put_config_map("settings", &json!({"a": "2"}));
    world.prepare(&pod).await.unwrap();
    assert_eq!(
        fs::read_to_string(&place).unwrap(),
        "1",
        "a part that is mounted does not follow"
    );
    world.mounted(&pod).await.unwrap();
    assert_eq!(
        fs::read_to_string(&place).unwrap(),
        "2",
        "the next container sees the new one"
    );
    world.volumes.tear_down(&identity()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_exchanged_while_we_look_wins_nothing() {
    let world = World::new();
    let outside = world.folder.path().join("outside");
    fs::create_dir_all(outside.join("deeper")).unwrap();
    fs::write(outside.join("deeper/secret"), "x").unwrap();
    let (pod, volume) = part(&world, "swapped/deeper").await;
    fs::create_dir_all(volume.join("good/deeper")).unwrap();
    symlink(&outside, volume.join("bad")).unwrap();
    fs::create_dir(volume.join("swapped")).unwrap();

    let is_terminal = AtomicBool::new(false);
    let mut mounted = 0;
    std::thread::scope(|scope| {
        // Exchanges the folder and the link, without a moment in which neither is there.
        scope.spawn(|| {
            let folder = fs::File::open(&volume).unwrap();
            while !is_terminal.load(Ordering::Relaxed) {
                for name in ["good", "bad"] {
                    let how = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(&folder, name, &folder, "swapped", how).unwrap();
                }
            }
        });
        let handle = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            let mut tries = 0;
            // However seldom the two take turns, it is tried with the folder in place, too.
            while tries < 300 || mounted == 0 {
                tries += 1;
                if let Ok(place) = handle.block_on(world.mounted(&pod)) {
                    mounted += 1;
                    assert!(!place.join("secret").exists(), "the machine's files are mounted");
                }
            }
        });
        is_terminal.store(true, Ordering::Relaxed);
    });
    assert!(outside.join("deeper/secret").exists());
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(outside.join("deeper/secret").exists());
}
