//! Images, and figures.

use k3_node::runtime::RuntimeError;
use k3_test_services::{TEST_IMAGE, TEST_IMAGE_WITH_NAMED_USER, TEST_IMAGE_WITH_USER};

use crate::world::{World, eventually};

pub(crate) async fn images_are_there_or_not(world: &World) {
    let runtime = &world.runtime;
    let image = runtime.image(TEST_IMAGE).await.unwrap().unwrap();
    assert!(image.tags.iter().any(|tag| tag == TEST_IMAGE), "{image:?}");
    assert!(
        image.size > 100_000 && image.id.starts_with("sha256:"),
        "{image:?}"
    );
    assert_eq!((image.user, image.user_name), (None, None));
    assert_eq!(
        runtime.image(&image.id).await.unwrap().map(|same| same.id),
        Some(image.id.clone())
    );
    let numbered = runtime.image(TEST_IMAGE_WITH_USER).await.unwrap().unwrap();
    assert_eq!((numbered.user, numbered.user_name), (Some(1000), None));
    let named = runtime.image(TEST_IMAGE_WITH_NAMED_USER).await.unwrap().unwrap();
    assert_eq!((named.user, named.user_name.as_deref()), (None, Some("daemon")));
    assert_eq!(runtime.image("k3.test/absent:1").await.unwrap(), None);
    let listed = runtime.images().await.unwrap();
    assert!(
        listed
            .iter()
            .any(|one| one.id == image.id && one.tags == image.tags),
        "{listed:?}"
    );
}

pub(crate) async fn what_cannot_be_pulled_says_why(world: &World) {
    // Nobody listens on that port.
    let error = world
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
    assert!(world.runtime.pull_image("NOT/A/Name::", None).await.is_err());
    world.runtime.remove_image("k3.test/absent:1").await.unwrap();
}

pub(crate) async fn figures_are_told(world: &World) {
    let version = world.runtime.version().await.unwrap();
    assert_eq!(version.name, world.place.name);
    assert!(
        version
            .version
            .starts_with(|first: char| first.is_ascii_digit() || first == 'v'),
        "{version}"
    );
    assert_eq!(
        world.runtime.readiness().await.unwrap().problems,
        Vec::<String>::new()
    );
    // containerd counts from time to time, and tells nothing before.
    let filesystem = eventually("figures of images", async || {
        let filesystem = world.runtime.image_filesystem().await.unwrap();
        (filesystem.used > 100_000).then_some(filesystem)
    })
    .await;
    assert!(filesystem.path.is_absolute(), "{filesystem:?}");

    let pod = world.pod().await;
    let script = "head -c 1000000 /dev/urandom >/written; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000";
    world.start(&pod, &world.script(script)).await;
    let usage = eventually("figures of the container", async || {
        let all = world.runtime.usage().await.unwrap();
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
