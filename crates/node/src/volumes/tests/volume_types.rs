//! Each volume type.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::{environment, runtime::MountPropagation};

/// A pod that mounts a ConfigMap volume.
fn pod_with_config_map(fixture: &VolumeFixture) -> Pod {
    fixture.put_config_map("settings", &json!({"a": "1", "b": "2"}));
    pod(
        json!([{"name": "conf", "configMap": {"name": "settings", "defaultMode": 0o440}}]),
        json!([{"name": "conf", "mountPath": "/conf"}]),
    )
}

#[tokio::test]
async fn config_map_volume_is_updated() {
    let fixture = VolumeFixture::new();
    let pod = pod_with_config_map(&fixture);
    fixture.mount_volumes(&pod).await.unwrap();
    let volume = fixture.volume_path("configmap", "conf");
    assert_eq!(fs::read_link(volume.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "1");
    assert_eq!(mode(&volume.join("a")), 0o440);
    let data_link = fs::read_link(volume.join("..data")).unwrap();

    fixture.mount_volumes(&pod).await.unwrap();
    assert_eq!(
        fs::read_link(volume.join("..data")).unwrap(),
        data_link,
        "an unchanged volume is not written"
    );

    fixture.put_config_map("settings", &json!({"a": "new", "c": "3"}));
    fixture.mount_volumes(&pod).await.unwrap();
    assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "new");
    assert_eq!(fs::read_to_string(volume.join("c")).unwrap(), "3");
    assert!(volume.join("b").symlink_metadata().is_err());
    assert!(!volume.join(data_link).exists(), "the old version is removed");
    let mounts = fixture.make_mounts(&pod).await.unwrap();
    assert!(mounts[0].read_only);
    assert_eq!(mounts[0].source, MountSource::Host(volume));
}

#[tokio::test]
async fn reports_missing_objects_with_messages_of_upstream() {
    let fixture = VolumeFixture::new();
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        pod(json!([volume]), json!([{"name": "v", "mountPath": "/v"}]))
    };
    let messages = async |source: Value| event_messages(fixture.mount_volumes(&volume(source)).await);
    let set_up_failed = |reason: &str| vec![format!("MountVolume.SetUp failed for volume \"v\" : {reason}")];
    assert_eq!(
        messages(json!({"configMap": {"name": "x"}})).await,
        set_up_failed("configmap \"x\" not found")
    );
    assert_eq!(
        messages(json!({"secret": {"secretName": "x"}})).await,
        set_up_failed("secret \"x\" not found")
    );
    fixture.put_config_map("x", &json!({}));
    fixture.put_secret("x", &json!({}));
    let item = json!([{"key": "k", "path": "p"}]);
    let map = json!({"name": "x", "items": item});
    assert_eq!(
        messages(json!({"configMap": map})).await,
        set_up_failed("configmap references non-existent config key: k")
    );
    let secret = json!({"secretName": "x", "items": item});
    assert_eq!(
        messages(json!({"secret": secret})).await,
        set_up_failed("references non-existent secret key: k")
    );
    let both = json!({"sources": [{"configMap": {"name": "y"}}, {"secret": {"name": "z"}}]});
    let errors = "[configmap \"y\" not found, secret \"z\" not found]";
    assert_eq!(messages(json!({"projected": both})).await, set_up_failed(errors));
    assert_eq!(
        messages(json!({"emptyDir": {"medium": "Tape"}})).await,
        set_up_failed("unknown storage medium \"Tape\"")
    );
    let huge =
        set_up_failed("medium HugePages-2Mi: this node does not support emptyDir volumes with huge pages");
    assert_eq!(
        messages(json!({"emptyDir": {"medium": "HugePages-2Mi"}})).await,
        huge
    );
    let nfs = messages(json!({"nfs": {"server": "s", "path": "/"}})).await;
    assert!(
        nfs[0].contains("failed to process volumes=[v]: failed to get Plugin from volumeSpec"),
        "{nfs:?}"
    );
    assert!(nfs[0].contains("nfs"), "{nfs:?}");
    let escape = json!({"name": "x", "items": [{"key": "k", "path": "../../etc/passwd"}]});
    fixture.put_config_map("x", &json!({"k": "v"}));
    assert_eq!(
        messages(json!({"configMap": escape})).await,
        set_up_failed("invalid path: must not contain '..': ../../etc/passwd")
    );
}

#[tokio::test]
async fn optional_sources_may_be_missing_and_failures_do_not_affect_other_volumes() {
    let fixture = VolumeFixture::new();
    let pod = pod(
        json!([
            {"name": "maybe", "configMap": {"name": "x", "optional": true}},
            {"name": "never", "configMap": {"name": "x"}},
            {"name": "unused", "configMap": {"name": "x"}},
            {"name": "empty", "emptyDir": {}}
        ]),
        json!([{"name": "maybe", "mountPath": "/m"}, {"name": "never", "mountPath": "/n"}, {"name": "empty", "mountPath": "/e"}]),
    );
    assert_eq!(event_messages(fixture.mount_volumes(&pod).await).len(), 1);
    assert!(fixture.volume_path("configmap", "maybe").join("..data").exists());
    assert!(fixture.volume_path("empty-dir", "empty").is_dir());
    assert!(!fixture.volume_path("configmap", "unused").exists());
    fixture.put_config_map("x", &json!({"k": "v"}));
    fixture.mount_volumes(&pod).await.unwrap();
    for volume in ["maybe", "never"] {
        assert_eq!(
            fs::read_to_string(fixture.volume_path("configmap", volume).join("k")).unwrap(),
            "v"
        );
    }
    fixture.sources.remove_config_map("shop", "x");
    assert!(fixture.mount_volumes(&pod).await.is_err());
    assert!(
        fixture.volume_path("configmap", "never").join("k").exists(),
        "a failed update keeps the old files"
    );
}

#[tokio::test]
async fn secrets_and_tokens_are_on_tmpfs_with_fs_group() {
    let fixture = VolumeFixture::new();
    fixture.put_secret("keys", &json!({"key": "c2VjcmV0"}));
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
    fixture.mount_volumes(&pod).await.unwrap();
    let keys = fixture.volume_path("secret", "keys");
    let all = fixture.volume_path("projected", "all");
    for volume in [&keys, &all] {
        assert_eq!(mount_table::mount_at(volume).unwrap().unwrap().fs_type, "tmpfs");
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

    fixture.sources.refresh_tokens();
    let mut relabelled = pod.clone();
    relabelled.metadata.labels = Some([("app".to_owned(), "new".to_owned())].into());
    fixture.mount_volumes(&relabelled).await.unwrap();
    assert_eq!(
        fs::read_to_string(all.join("token")).unwrap(),
        "robot-of-web-for-vault-1"
    );
    assert_eq!(fs::metadata(all.join("token")).unwrap().gid(), 4321);
    assert_eq!(fs::read_to_string(all.join("d/labels")).unwrap(), "app=\"new\"");
    assert_eq!(fixture.mount_count(), 2);
    fixture
        .restart()
        .mount_pod_volumes(&relabelled, &facts())
        .await
        .unwrap();
    assert_eq!(fixture.mount_count(), 2, "nothing is mounted twice");
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert_eq!(fixture.mount_count(), 0);
}

#[tokio::test]
async fn token_is_owned_by_run_as_user() {
    let fixture = VolumeFixture::new();
    let volumes =
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    let mounts = json!([{"name": "t", "mountPath": "/t"}]);
    let pod = pod_with(&json!({"securityContext": {"runAsUser": 1234}}), volumes, mounts);
    fixture.mount_volumes(&pod).await.unwrap();
    let token = fixture.volume_path("projected", "t").join("token");
    assert_eq!((fs::metadata(&token).unwrap().uid(), mode(&token)), (1234, 0o600));
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
}

#[tokio::test]
async fn writes_trust_bundles_as_pem_files() {
    let fixture = VolumeFixture::new();
    let bundle = |optional: bool| {
        let source = json!({"clusterTrustBundle": {"name": "ca", "path": "ca.pem", "optional": optional}});
        let volumes = json!([{"name": "t", "projected": {"sources": [source]}}]);
        pod(volumes, json!([{"name": "t", "mountPath": "/t"}]))
    };
    assert!(fixture.mount_volumes(&bundle(false)).await.is_err());
    fixture.mount_volumes(&bundle(true)).await.unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n";
    let object = json!({"metadata": {"name": "ca"}, "spec": {"trustBundle": pem}});
    fixture
        .sources
        .put_cluster_trust_bundle(serde_json::from_value(object).unwrap());
    fixture.mount_volumes(&bundle(false)).await.unwrap();
    assert_eq!(
        fs::read_to_string(fixture.volume_path("projected", "t").join("ca.pem")).unwrap(),
        pem
    );
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
}

#[tokio::test]
async fn empty_dir_is_set_up_once() {
    let fixture = VolumeFixture::new();
    let pod = pod_with(
        &json!({"securityContext": {"fsGroup": 4321}}),
        json!([{"name": "disk", "emptyDir": {}}, {"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]),
        json!([{"name": "disk", "mountPath": "/d"}, {"name": "ram", "mountPath": "/r"}]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    let disk = fixture.volume_path("empty-dir", "disk");
    let ram = fixture.volume_path("empty-dir", "ram");
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
        "sizeLimit is enforced"
    );
    fs::remove_file(ram.join("large")).unwrap();
    for volumes in [&fixture.volumes, &fixture.restart()] {
        volumes.mount_pod_volumes(&pod, &facts()).await.unwrap();
        for volume in [&disk, &ram] {
            assert_eq!(fs::read_to_string(volume.join("mine")).unwrap(), "x");
            assert_eq!(mode(volume), 0o700);
        }
    }
    fs::write(disk.join("large"), vec![1; 1 << 20]).unwrap();
    let usage = fixture.volumes.volume_usage(&identity()).await.unwrap();
    assert_eq!(
        usage.iter().map(|usage| &*usage.volume).collect::<Vec<_>>(),
        ["disk", "ram"]
    );
    assert!(
        usage[0].used_bytes >= 1 << 20 && usage[1].used_bytes < 1 << 20,
        "{usage:?}"
    );
    assert_eq!(usage[1].capacity_bytes, 1 << 20);
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(!fixture.pod_directory().exists());
    assert_eq!(fixture.mount_count(), 0);
}

#[tokio::test]
async fn persistent_volumes_outlive_the_pod() {
    let fixture = VolumeFixture::new();
    let put_volume = |path: &Path, provisioner: &str| {
        let volume = json!({
        "metadata": {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
        "spec": {
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "claimRef": {"uid": "claim-uid"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}]}}
        }});
        fixture
            .sources
            .put_persistent_volume(serde_json::from_value(volume).unwrap());
    };
    let put_claim = |phase: &str, uid: &str, owner: &str| {
        let owners =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true}]);
        let claim = json!({
            "metadata": {"namespace": "shop", "name": "web-own", "uid": uid, "ownerReferences": owners},
            "spec": {"volumeName": "pv"}, "status": {"phase": phase}});
        fixture
            .sources
            .put_persistent_volume_claim(serde_json::from_value(claim).unwrap());
    };
    let directory = fixture.temp.path().join("storage/pv");
    put_volume(&directory, "k3.io/local-path");
    let pod_with_claim = pod(
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "web-own"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    let unprocessed = |reason: &str| {
        let reason = format!("failed to process volumes=[data]: {reason}");
        vec![format!(
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], {reason}"
        )]
    };
    let messages = event_messages(fixture.mount_volumes(&pod_with_claim).await);
    let reason = "failed to fetch PVC from API server: persistentvolumeclaims \"web-own\" not found";
    assert_eq!(
        messages,
        unprocessed(&format!("error processing PVC shop/web-own: {reason}"))
    );
    put_claim("Pending", "claim-uid", "u1");
    let messages = event_messages(fixture.mount_volumes(&pod_with_claim).await);
    assert_eq!(
        messages,
        unprocessed("error processing PVC shop/web-own: PVC is not bound")
    );
    put_claim("Bound", "other-uid", "u1");
    let messages = event_messages(fixture.mount_volumes(&pod_with_claim).await);
    assert!(
        messages[0].ends_with("its pv.Spec.ClaimRef.UID claim-uid does not point to claim.UID other-uid"),
        "{messages:?}"
    );

    put_claim("Bound", "claim-uid", "u1");
    let mut other_node = facts();
    other_node.node_labels.clear();
    let messages = event_messages(
        fixture
            .volumes
            .mount_pod_volumes(&pod_with_claim, &other_node)
            .await,
    );
    assert_eq!(
        messages,
        ["MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms"]
    );
    fixture.mount_volumes(&pod_with_claim).await.unwrap();
    assert_eq!(fixture.mounted_path(&pod_with_claim).await.unwrap(), directory);
    assert_eq!(mode(&directory), 0o777);
    fs::write(directory.join("kept"), "x").unwrap();
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(directory.join("kept").exists());

    let pod_with_ephemeral = pod(
        json!([{"name": "own", "ephemeral": {}}]),
        json!([{"name": "own", "mountPath": "/d"}]),
    );
    fixture.mount_volumes(&pod_with_ephemeral).await.unwrap();
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    put_claim("Bound", "claim-uid", "another pod");
    let messages = event_messages(fixture.mount_volumes(&pod_with_ephemeral).await);
    assert!(
        messages[0].ends_with("PVC shop/web-own was not created for pod shop/web (pod is not owner)"),
        "{messages:?}"
    );
}

#[tokio::test]
async fn local_volume_is_bind_mounted_with_fs_group() {
    let fixture = VolumeFixture::new();
    let directory = fixture.temp.path().join("disk");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("kept"), "x").unwrap();
    let volume = json!({"metadata": {"name": "pv"},
        "spec": {"local": {"path": directory}, "claimRef": {"uid": "claim-uid"}}});
    fixture
        .sources
        .put_persistent_volume(serde_json::from_value(volume).unwrap());
    let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    fixture
        .sources
        .put_persistent_volume_claim(serde_json::from_value(claim).unwrap());
    let pod = pod_with(
        &json!({"securityContext": {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}}),
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    fixture.restart().mount_pod_volumes(&pod, &facts()).await.unwrap();
    assert_eq!(fixture.mount_count(), 1);
    let path = fixture.mounted_path(&pod).await.unwrap();
    assert_eq!(path, fixture.volume_path("local-volume", "pv"));
    assert_eq!(fs::read_to_string(path.join("kept")).unwrap(), "x");
    assert_eq!(fs::metadata(directory.join("kept")).unwrap().gid(), 4321);
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(directory.join("kept").exists());
    assert_eq!(fixture.mount_count(), 0);
}

#[tokio::test]
async fn read_write_once_pod_volume_is_mounted_by_one_pod_only() {
    let fixture = VolumeFixture::new();
    let directory = fixture.temp.path().join("disk");
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"accessModes": ["ReadWriteOncePod"],
        "hostPath": {"path": directory, "type": "DirectoryOrCreate"}, "claimRef": {"uid": "claim-uid"}}});
    fixture
        .sources
        .put_persistent_volume(serde_json::from_value(volume).unwrap());
    let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    fixture
        .sources
        .put_persistent_volume_claim(serde_json::from_value(claim).unwrap());
    let one = pod(
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        json!([{"name": "data", "mountPath": "/d"}]),
    );
    let mut other = one.clone();
    other.metadata.uid = Some("u2".to_owned());
    fixture.mount_volumes(&one).await.unwrap();
    fixture.mount_volumes(&one).await.unwrap();
    let expected = "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    assert_eq!(event_messages(fixture.mount_volumes(&other).await), [expected]);
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    fixture.mount_volumes(&other).await.unwrap();
}

#[tokio::test]
async fn makes_mounts_from_container_spec() {
    let fixture = VolumeFixture::new();
    let directory = fixture.temp.path().join("late");
    let pod = pod(
        json!([{"name": "host", "hostPath": {"path": directory}}, {"name": "image", "image": {"reference": "tools:1"}}]),
        json!([
            {"name": "host", "mountPath": "data", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "host", "mountPath": "/two", "mountPropagation": "Bidirectional"},
            {"name": "image", "mountPath": "/tools", "subPath": "bin"}
        ]),
    );
    fixture.mount_volumes(&pod).await.unwrap();
    assert!(!directory.exists());
    let mounts = fixture.make_mounts(&pod).await.unwrap();
    assert!(directory.is_dir(), "created when it is mounted");
    let host = |target: &str| Mount {
        source: MountSource::Host(directory.clone()),
        target: target.to_owned(),
        read_only: false,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    };
    let expected = [
        Mount {
            read_only: true,
            recursive_read_only: true,
            ..host("/data")
        },
        Mount {
            propagation: MountPropagation::Bidirectional,
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
    fixture.volumes.remove_pod_directory(&identity()).await.unwrap();
    assert!(directory.is_dir());
}

#[tokio::test]
async fn rejects_invalid_mounts() {
    let fixture = VolumeFixture::new();
    let mount_error = async |mount: Value| {
        let mut mount = mount;
        mount["mountPath"] = json!("/m");
        let pod = pod(
            json!([{"name": "v", "emptyDir": {}}]),
            json!([{"name": "v", "mountPath": "/v"}]),
        );
        fixture.mount_volumes(&pod).await.unwrap();
        let mut invalid = pod.clone();
        invalid.spec.as_mut().unwrap().containers[0].volume_mounts =
            Some(vec![serde_json::from_value(mount).unwrap()]);
        fixture.make_mounts(&invalid).await.unwrap_err().to_string()
    };
    assert_eq!(
        mount_error(json!({"name": "x"})).await,
        "cannot find volume \"x\" to mount into container \"c\""
    );
    let absolute = json!({"name": "v", "subPath": "/etc"});
    assert_eq!(
        mount_error(absolute).await,
        "error SubPath `/etc` must not be an absolute path"
    );
    let back = json!({"name": "v", "subPath": "a/../../b"});
    assert_eq!(
        mount_error(back).await,
        "unable to provision SubPath `a/../../b`: must not contain '..'"
    );
    let missing = json!({"name": "v", "subPathExpr": "$(NONE)/$(ALSO)"});
    assert_eq!(mount_error(missing).await, "missing value for ALSO, NONE");
    let writable = json!({"name": "v", "recursiveReadOnly": "Enabled"});
    let expected = "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is not read-only";
    assert_eq!(mount_error(writable).await, expected);
    assert_eq!(
        mount_error(json!({"name": "v", "mountPropagation": "Odd"})).await,
        "invalid MountPropagation mode: \"Odd\""
    );
}

#[tokio::test]
async fn reads_environment_variables_from_a_file_in_a_volume() {
    let fixture = VolumeFixture::new();
    let mut pod = pod(json!([{"name": "v", "emptyDir": {}}]), json!([]));
    let reference = |key: &str, optional: bool| {
        let file = json!({"volumeName": "v", "path": "out/env", "key": key, "optional": optional});
        json!({"name": key, "valueFrom": {"fileKeyRef": file}})
    };
    let mut environment_of = async |variables: Value| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        container.env = Some(serde_json::from_value(variables).unwrap());
        fixture.mount_volumes(&pod).await.unwrap();
        environment::make_environment_variables(
            &pod,
            only_container(&pod),
            &*fixture.sources,
            &facts(),
            &[],
            &fixture.volumes,
        )
        .await
    };
    let error = environment_of(json!([reference("A", false)])).await.unwrap_err();
    assert_eq!(error.to_string(), "couldn't parse env file");
    let directory = fixture.volume_path("empty-dir", "v").join("out");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("env"), "A='1'\n").unwrap();
    let variables = environment_of(json!([reference("A", false), reference("B", true)]))
        .await
        .unwrap();
    assert_eq!(variables, [("A".to_owned(), "1".to_owned())]);
    let error = environment_of(json!([reference("B", false)])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment variable key \"B\" not found in file \"out/env\""
    );
    fs::remove_file(directory.join("env")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.join("env")).unwrap();
    assert!(environment_of(json!([reference("A", false)])).await.is_err());
}
