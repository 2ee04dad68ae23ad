//! Images, version and stats.

use k3_node::runtime::RuntimeError;
use k3_test_services::{TEST_IMAGE, TEST_IMAGE_WITH_NAMED_USER, TEST_IMAGE_WITH_USER};

use crate::test_node::{TestNode, eventually};

pub(crate) async fn lists_and_inspects_images(node: &TestNode) {
    let runtime = &node.runtime;
    let image = runtime.image_status(TEST_IMAGE).await.unwrap().unwrap();
    assert!(image.tags.iter().any(|tag| tag == TEST_IMAGE), "{image:?}");
    assert!(
        image.size > 100_000 && image.id.starts_with("sha256:"),
        "{image:?}"
    );
    assert_eq!((image.user, image.user_name), (None, None));
    assert_eq!(
        runtime.image_status(&image.id).await.unwrap().map(|same| same.id),
        Some(image.id.clone())
    );
    let numbered = runtime.image_status(TEST_IMAGE_WITH_USER).await.unwrap().unwrap();
    assert_eq!((numbered.user, numbered.user_name), (Some(1000), None));
    let named = runtime
        .image_status(TEST_IMAGE_WITH_NAMED_USER)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((named.user, named.user_name.as_deref()), (None, Some("daemon")));
    assert_eq!(runtime.image_status("k3.test/absent:1").await.unwrap(), None);
    let listed = runtime.list_images().await.unwrap();
    assert!(
        listed
            .iter()
            .any(|one| one.id == image.id && one.tags == image.tags),
        "{listed:?}"
    );
}

pub(crate) async fn reports_pull_errors(node: &TestNode) {
    // No registry listens on port 1.
    let error = node
        .runtime
        .pull_image("127.0.0.1:1/absent:1", None)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            RuntimeError::ImagePull(_) | RuntimeError::RegistryUnavailable(_)
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(node.runtime.pull_image("NOT/A/Name::", None).await.is_err());
    node.runtime.remove_image("k3.test/absent:1").await.unwrap();
}

pub(crate) async fn reports_version_and_stats(node: &TestNode) {
    let version = node.runtime.version().await.unwrap();
    assert_eq!(version.name, node.runtime_under_test.name);
    assert!(
        version
            .version
            .starts_with(|first: char| first.is_ascii_digit() || first == 'v'),
        "{version}"
    );
    assert_eq!(
        node.runtime.status().await.unwrap().problems,
        Vec::<String>::new()
    );
    // containerd measures periodically, and reports nothing before.
    let filesystem = eventually("disk usage of images", async || {
        let filesystem = node.runtime.image_fs_info().await.unwrap();
        (filesystem.used > 100_000).then_some(filesystem)
    })
    .await;
    assert!(filesystem.path.is_absolute(), "{filesystem:?}");

    let pod = node.pod().await;
    let script = "head -c 1000000 /dev/urandom >/written; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000";
    node.start(&pod, &node.script(script)).await;
    let usage = eventually("stats of the container", async || {
        let all = node.runtime.list_container_stats().await.unwrap();
        all.into_iter()
            .find(|usage| usage.name == "main" && usage.cpu_nanoseconds > 1_000_000)
    })
    .await;
    assert_eq!(usage.pod, pod.spec.pod);
    assert!(
        usage.memory > 0 && usage.memory_working_set <= usage.memory,
        "{usage:?}"
    );
}
