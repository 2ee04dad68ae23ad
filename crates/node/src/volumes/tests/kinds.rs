//! Each type of volumes.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::{environment, runtime::Propagation};

fn config(world: &World) -> Pod {
    world.put_config_map("settings", &json!({"a": "1", "b": "2"}));
    pod(
        json!([{"name": "conf", "configMap": {"name": "settings", "defaultMode": 0o440}}]),
        json!([{"name": "conf", "mountPath": "/conf"}]),
    )
}

#[tokio::test]
async fn a_config_map_is_files_that_follow_it() {
    let world = World::new();
    let pod = config(&world);
    world.prepare(&pod).await.unwrap();
    let volume = world.volume("configmap", "conf");
    assert_eq!(fs::read_link(volume.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "1");
    assert_eq!(mode(&volume.join("a")), 0o440);
    let shown = fs::read_link(volume.join("..data")).unwrap();

    world.prepare(&pod).await.unwrap();
    assert_eq!(
        fs::read_link(volume.join("..data")).unwrap(),
        shown,
        "nothing changed, nothing is written"
    );

    world.put_config_map("settings", &json!({"a": "new", "c": "3"}));
    world.prepare(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "new");
    assert_eq!(fs::read_to_string(volume.join("c")).unwrap(), "3");
    assert!(volume.join("b").symlink_metadata().is_err());
    assert!(!volume.join(shown).exists(), "the old files are gone");
    let mounts = world.mounts(&pod).await.unwrap();
    assert!(mounts[0].read_only);
    assert_eq!(mounts[0].source, MountSource::Host(volume));
}

#[tokio::test]
async fn what_is_missing_is_told_in_the_words_of_upstream() {
    let world = World::new();
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        pod(json!([volume]), json!([{"name": "v", "mountPath": "/v"}]))
    };
    let told = async |source: Value| events(world.prepare(&volume(source)).await);
    let step = |why: &str| vec![format!("MountVolume.SetUp failed for volume \"v\" : {why}")];
    assert_eq!(
        told(json!({"configMap": {"name": "x"}})).await,
        step("configmap \"x\" not found")
    );
    assert_eq!(
        told(json!({"secret": {"secretName": "x"}})).await,
        step("secret \"x\" not found")
    );
    world.put_config_map("x", &json!({}));
    world.put_secret("x", &json!({}));
    let item = json!([{"key": "k", "path": "p"}]);
    let map = json!({"name": "x", "items": item});
    assert_eq!(
        told(json!({"configMap": map})).await,
        step("configmap references non-existent config key: k")
    );
    let secret = json!({"secretName": "x", "items": item});
    assert_eq!(
        told(json!({"secret": secret})).await,
        step("references non-existent secret key: k")
    );
    let both = json!({"sources": [{"configMap": {"name": "y"}}, {"secret": {"name": "z"}}]});
    let words = "[configmap \"y\" not found, secret \"z\" not found]";
    assert_eq!(told(json!({"projected": both})).await, step(words));
    assert_eq!(
        told(json!({"emptyDir": {"medium": "Tape"}})).await,
        step("unknown storage medium \"Tape\"")
    );
    let huge = step("medium HugePages-2Mi: this node mounts no volumes of huge pages");
    assert_eq!(told(json!({"emptyDir": {"medium": "HugePages-2Mi"}})).await, huge);
    let nfs = told(json!({"nfs": {"server": "s", "path": "/"}})).await;
    assert!(
        nfs[0].contains("failed to process volumes=[v]: failed to get Plugin from volumeSpec"),
        "{nfs:?}"
    );
    assert!(nfs[0].contains("nfs"), "{nfs:?}");
    let escape = json!({"name": "x", "items": [{"key": "k", "path": "../../etc/passwd"}]});
    world.put_config_map("x", &json!({"k": "v"}));
    assert_eq!(
        told(json!({"configMap": escape})).await,
        step("invalid path: must not contain '..': ../../etc/passwd")
    );
}

#[tokio::test]
async fn what_is_optional_may_be_missing_and_one_volume_does_not_hold_up_another() {
    let world = World::new();
    let pod = pod(
        json!([
            {"name": "maybe", "configMap": {"name": "x", "optional": true}},
            {"name": "never", "configMap": {"name": "x"}},
            {"name": "unused", "configMap": {"name": "x"}},
            {"name": "empty", "emptyDir": {}}
        ]),
        json!([{"name": "maybe", "mountPath": "/m"}, {"name": "never", "mountPath": "/n"}, {"name": "empty", "mountPath": "/e"}]),
    );
    assert_eq!(events(world.prepare(&pod).await).len(), 1);
    assert!(world.volume("configmap", "maybe").join("..data").exists());
    assert!(world.volume("empty-dir", "empty").is_dir());
    assert!(!world.volume("configmap", "unused").exists());
    world.put_config_map("x", &json!({"k": "v"}));
    world.prepare(&pod).await.unwrap();
    for volume in ["maybe", "never"] {
        assert_eq!(
            fs::read_to_string(world.volume("configmap", volume).join("k")).unwrap(),
            "v"
        );
    }
    world.sources.remove_config_map("shop", "x");
    assert!(world.prepare(&pod).await.is_err());
    assert!(
        world.volume("configmap", "never").join("k").exists(),
        "what was there stays"
    );
}

#[tokio::test]
async fn secrets_and_tokens_are_in_memory_and_the_groups() {
    let world = World::new();
    world.put_secret("keys", &json!({"key": "c2VjcmV0"}));
    let token =
        json!({"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}});
    let labels = json!({"downwardAPI": {"items": [{"path": "d/labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}});
    let pod = pod_with(
        &json!({"securityContext": {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}}),
        json!([
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {"name": "all", "projected": {"sources": [token, labels], "defaultMode": 0o644}}
        ]),
        json!([{"name": "keys", "mountPath": "/k"}, {"name": "all", "mountPath": "/a"}]),
    );
    world.prepare(&pod).await.unwrap();
    let keys = world.volume("secret", "keys");
    let all = world.volume("projected", "all");
    for volume in [&keys, &all] {
        assert_eq!(mount_table::at(volume).unwrap().unwrap().kind, "tmpfs");
        assert_eq!(fs::metadata(volume).unwrap().gid(), 4321);
        assert_eq!(mode(volume), 0o2777);
    }
    assert_eq!(fs::read_to_string(keys.join("key")).unwrap(), "secret");
    assert_eq!(mode(&keys.join("key")), 0o440);
    assert_eq!(mode(&all.join("token")), 0o640);
    assert_eq!(fs::metadata(all.join("token")).unwrap().gid(), 4321);
    assert_eq!(
        fs::read_to_string(all.join("token")).unwrap(),
        "robot-of-web-for-vault-0"
    );
    assert_eq!(fs::read_to_string(all.join("d/labels")).unwrap(), "app=\"web\"");

    world.sources.renew_tokens();
    let mut relabelled = pod.clone();
    relabelled.metadata.labels = Some([("app".to_owned(), "new".to_owned())].into());
    world.prepare(&relabelled).await.unwrap();
    assert_eq!(
        fs::read_to_string(all.join("token")).unwrap(),
        "robot-of-web-for-vault-1"
    );
    assert_eq!(fs::metadata(all.join("token")).unwrap().gid(), 4321);
    assert_eq!(fs::read_to_string(all.join("d/labels")).unwrap(), "app=\"new\"");
    assert_eq!(world.mount_count(), 2);
    world
        .restarted()
        .prepare(&relabelled, &facts(), &[])
        .await
        .unwrap();
    assert_eq!(world.mount_count(), 2, "nothing is mounted twice");
    world.volumes.tear_down(&identity()).await.unwrap();
    assert_eq!(world.mount_count(), 0);
}

#[tokio::test]
async fn a_token_is_its_only_users() {
    let world = World::new();
    let volumes =
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    let mounts = json!([{"name": "t", "mountPath": "/t"}]);
    let pod = pod_with(&json!({"securityContext": {"runAsUser": 1234}}), volumes, mounts);
    world.prepare(&pod).await.unwrap();
    let token = world.volume("projected", "t").join("token");
    assert_eq!((fs::metadata(&token).unwrap().uid(), mode(&token)), (1234, 0o600));
    world.volumes.tear_down(&identity()).await.unwrap();
}

#[tokio::test]
async fn trust_bundles_are_files_of_certificates() {
    let world = World::new();
    let bundle = |optional: bool| {
        let source = json!({"clusterTrustBundle": {"name": "ca", "path": "ca.pem", "optional": optional}});
        let volumes = json!([{"name": "t", "projected": {"sources": [source]}}]);
        pod(volumes, json!([{"name": "t", "mountPath": "/t"}]))
    };
    assert!(world.prepare(&bundle(false)).await.is_err());
    world.prepare(&bundle(true)).await.unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n";
    let object = json!({"metadata": {"name": "ca"}, "spec": {"trustBundle": pem}});
    world
        .sources
        .put_trust_bundle(serde_json::from_value(object).unwrap());
    world.prepare(&bundle(false)).await.unwrap();
    assert_eq!(
        fs::read_to_string(world.volume("projected", "t").join("ca.pem")).unwrap(),
        pem
    );
    world.volumes.tear_down(&identity()).await.unwrap();
}

#[tokio::test]
async fn an_empty_folder_is_made_once_and_is_the_containers_then() {
    let world = World::new();
    let pod = pod_with(
        &json!({"securityContext": {"fsGroup": 4321}}),
        json!([{"name": "disk", "emptyDir": {}}, {"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]),
        json!([{"name": "disk", "mountPath": "/d"}, {"name": "ram", "mountPath": "/r"}]),
    );
    world.prepare(&pod).await.unwrap();
    let disk = world.volume("empty-dir", "disk");
    let ram = world.volume("empty-dir", "ram");
    for volume in [&disk, &ram] {
        assert_eq!(
            (mode(volume), fs::metadata(volume).unwrap().gid()),
            (0o2777, 4321)
        );
        fs::write(volume.join("mine"), "x").unwrap();
        fs::set_permissions(volume, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert!(
        fs::write(ram.join("large"), vec![0; 2 << 20]).is_err(),
        "its size has a limit"
    );
    fs::remove_file(ram.join("large")).unwrap();
    for volumes in [&world.volumes, &world.restarted()] {
        volumes.prepare(&pod, &facts(), &[]).await.unwrap();
        for volume in [&disk, &ram] {
            assert_eq!(fs::read_to_string(volume.join("mine")).unwrap(), "x");
            assert_eq!(mode(volume), 0o700);
        }
    }
    fs::write(disk.join("large"), vec![1; 1 << 20]).unwrap();
    let usage = world.volumes.usage(&identity()).await.unwrap();
    assert_eq!(
        usage.iter().map(|usage| &*usage.volume).collect::<Vec<_>>(),
        ["disk", "ram"]
    );
    assert!(usage[0].used >= 1 << 20 && usage[1].used < 1 << 20, "{usage:?}");
    assert_eq!(usage[1].capacity, 1 << 20);
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(!world.pod_folder().exists());
    assert_eq!(world.mount_count(), 0);
}

#[tokio::test]
async fn claims_lead_to_folders_that_outlive_the_pod() {
    let world = World::new();
    let put = |path: &Path, maker: &str| {
        let volume = json!({
        "metadata": {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": maker}},
        "spec": {
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "claimRef": {"uid": "claim-uid"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}]}}
        }});
        world.sources.put_volume(serde_json::from_value(volume).unwrap());
    };
    let claim = |phase: &str, uid: &str, owner: &str| {
        let owners =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true}]);
        let claim = json!({
            "metadata": {"namespace": "shop", "name": "web-own", "uid": uid, "ownerReferences": owners},
            "spec": {"volumeName": "pv"}, "status": {"phase": phase}});
        world.sources.put_claim(serde_json::from_value(claim).unwrap());
    };
    let folder = world.folder.path().join("storage/pv");
    put(&folder, "k3.io/local-path");
    let named = pod(
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "web-own"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    let unknown = |why: &str| {
        let why = format!("failed to process volumes=[data]: {why}");
        vec![format!(
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], {why}"
        )]
    };
    let told = events(world.prepare(&named).await);
    let why = "failed to fetch PVC from API server: persistentvolumeclaims \"web-own\" not found";
    assert_eq!(
        told,
        unknown(&format!("error processing PVC shop/web-own: {why}"))
    );
    claim("Pending", "claim-uid", "u1");
    let told = events(world.prepare(&named).await);
    assert_eq!(
        told,
        unknown("error processing PVC shop/web-own: PVC is not bound")
    );
    claim("Bound", "other-uid", "u1");
    let told = events(world.prepare(&named).await);
    assert!(
        told[0].ends_with("its pv.Spec.ClaimRef.UID claim-uid does not point to claim.UID other-uid"),
        "{told:?}"
    );

    claim("Bound", "claim-uid", "u1");
    let mut elsewhere = facts();
    elsewhere.node_labels.clear();
    let told = events(world.volumes.prepare(&named, &elsewhere, &[]).await);
    assert_eq!(
        told,
        ["MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms"]
    );
    world.prepare(&named).await.unwrap();
    assert_eq!(world.mounted(&named).await.unwrap(), folder);
    assert_eq!(mode(&folder), 0o777);
    fs::write(folder.join("kept"), "x").unwrap();
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(folder.join("kept").exists());

    let own = pod(
        json!([{"name": "own", "ephemeral": {}}]),
        json!([{"name": "own", "mountPath": "/d"}]),
    );
    world.prepare(&own).await.unwrap();
    world.volumes.tear_down(&identity()).await.unwrap();
    claim("Bound", "claim-uid", "another pod");
    let told = events(world.prepare(&own).await);
    assert!(
        told[0].ends_with("PVC shop/web-own was not created for pod shop/web (pod is not owner)"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_local_volume_is_mounted_and_given_to_the_group() {
    let world = World::new();
    let folder = world.folder.path().join("disk");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("kept"), "x").unwrap();
    let volume = json!({"metadata": {"name": "pv"},
        "spec": {"local": {"path": folder}, "claimRef": {"uid": "claim-uid"}}});
    world.sources.put_volume(serde_json::from_value(volume).unwrap());
    let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    world.sources.put_claim(serde_json::from_value(claim).unwrap());
    let pod = pod_with(
        &json!({"securityContext": {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}}),
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    world.prepare(&pod).await.unwrap();
    world.restarted().prepare(&pod, &facts(), &[]).await.unwrap();
    assert_eq!(world.mount_count(), 1);
    let place = world.mounted(&pod).await.unwrap();
    assert_eq!(place, world.volume("local-volume", "pv"));
    assert_eq!(fs::read_to_string(place.join("kept")).unwrap(), "x");
    assert_eq!(fs::metadata(folder.join("kept")).unwrap().gid(), 4321);
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(folder.join("kept").exists());
    assert_eq!(world.mount_count(), 0);
}

#[tokio::test]
async fn a_volume_for_one_pod_is_not_given_to_another() {
    let world = World::new();
    let folder = world.folder.path().join("disk");
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"accessModes": ["ReadWriteOncePod"],
        "hostPath": {"path": folder, "type": "DirectoryOrCreate"}, "claimRef": {"uid": "claim-uid"}}});
    world.sources.put_volume(serde_json::from_value(volume).unwrap());
    let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    world.sources.put_claim(serde_json::from_value(claim).unwrap());
    let one = pod(
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    let mut other = one.clone();
    other.metadata.uid = Some("u2".to_owned());
    world.prepare(&one).await.unwrap();
    world.prepare(&one).await.unwrap();
    let words = "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    assert_eq!(events(world.prepare(&other).await), [words]);
    world.volumes.tear_down(&identity()).await.unwrap();
    world.prepare(&other).await.unwrap();
}

#[tokio::test]
async fn mounts_are_what_containers_ask_for() {
    let world = World::new();
    let folder = world.folder.path().join("late");
    let pod = pod(
        json!([{"name": "host", "hostPath": {"path": folder}}, {"name": "image", "image": {"reference": "tools:1"}}]),
        json!([
            {"name": "host", "mountPath": "data", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "host", "mountPath": "/two", "mountPropagation": "Bidirectional"},
            {"name": "image", "mountPath": "/tools", "subPath": "bin"}
        ]),
    );
    world.prepare(&pod).await.unwrap();
    assert!(!folder.exists());
    let mounts = world.mounts(&pod).await.unwrap();
    assert!(folder.is_dir(), "made when it is mounted");
    let host = |target: &str| Mount {
        source: MountSource::Host(folder.clone()),
        target: target.to_owned(),
        read_only: false,
        propagation: Propagation::Private,
        recursive_read_only: false,
    };
    let expected = [
        Mount {
            read_only: true,
            recursive_read_only: true,
            ..host("/data")
        },
        Mount {
            propagation: Propagation::Bidirectional,
            ..host("/two")
        },
        Mount {
            source: MountSource::Image {
                image: "tools:1".to_owned(),
                sub_path: "bin".to_owned(),
            },
            read_only: true,
            ..host("/tools")
        },
    ];
    assert_eq!(mounts, expected);
    world.volumes.tear_down(&identity()).await.unwrap();
    assert!(folder.is_dir());
}

#[tokio::test]
async fn mounts_that_make_no_sense_are_told() {
    let world = World::new();
    let told = async |mount: Value| {
        let mut mount = mount;
        mount["mountPath"] = json!("/m");
        let pod = pod(
            json!([{"name": "v", "emptyDir": {}}]),
            json!([{"name": "v", "mountPath": "/v"}]),
        );
        world.prepare(&pod).await.unwrap();
        let mut asking = pod.clone();
        asking.spec.as_mut().unwrap().containers[0].volume_mounts =
            Some(vec![serde_json::from_value(mount).unwrap()]);
        world.mounts(&asking).await.unwrap_err().to_string()
    };
    assert_eq!(
        told(json!({"name": "x"})).await,
        "cannot find volume \"x\" to mount into container \"c\""
    );
    let absolute = json!({"name": "v", "subPath": "/etc"});
    assert_eq!(
        told(absolute).await,
        "error SubPath `/etc` must not be an absolute path"
    );
    let back = json!({"name": "v", "subPath": "a/../../b"});
    assert_eq!(
        told(back).await,
        "unable to provision SubPath `a/../../b`: must not contain '..'"
    );
    let missing = json!({"name": "v", "subPathExpr": "$(NONE)/$(ALSO)"});
    assert_eq!(told(missing).await, "missing value for ALSO, NONE");
    let writable = json!({"name": "v", "recursiveReadOnly": "Enabled"});
    let words = "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is not read-only";
    assert_eq!(told(writable).await, words);
    assert_eq!(
        told(json!({"name": "v", "mountPropagation": "Odd"})).await,
        "invalid MountPropagation mode: \"Odd\""
    );
}

#[tokio::test]
async fn an_environment_can_come_from_a_file_in_a_volume() {
    let world = World::new();
    let mut pod = pod(json!([{"name": "v", "emptyDir": {}}]), json!([]));
    let reference = |key: &str, optional: bool| {
        let file = json!({"volumeName": "v", "path": "out/env", "key": key, "optional": optional});
        json!({"name": key, "valueFrom": {"fileKeyRef": file}})
    };
    let mut ask = async |variables: Value| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        container.env = Some(serde_json::from_value(variables).unwrap());
        world.prepare(&pod).await.unwrap();
        environment::of(
            &pod,
            container_of(&pod),
            &*world.sources,
            &facts(),
            &[],
            &world.volumes,
        )
        .await
    };
    let error = ask(json!([reference("A", false)])).await.unwrap_err();
    assert_eq!(error.to_string(), "couldn't parse env file");
    let folder = world.volume("empty-dir", "v").join("out");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("env"), "A='1'\n").unwrap();
    let variables = ask(json!([reference("A", false), reference("B", true)]))
        .await
        .unwrap();
    assert_eq!(variables, [("A".to_owned(), "1".to_owned())]);
    let error = ask(json!([reference("B", false)])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment variable key \"B\" not found in file \"out/env\""
    );
    fs::remove_file(folder.join("env")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("env")).unwrap();
    assert!(ask(json!([reference("A", false)])).await.is_err());
}

fn container_of(pod: &Pod) -> &Container {
    container(pod)
}
