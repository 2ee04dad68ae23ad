//! The speed of migrations.

use std::{collections::BTreeMap, env};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use rustix::process::Signal;

use crate::{
    cluster::client,
    program::{TestDataDir, k3, outcome},
};

/// Default number of objects; `K3_OBJECTS` overrides it.
const OBJECTS: usize = 50_000;
/// Minimum objects per second of a release build.
const ASKED: u64 = 5_000;

async fn fill(data: &TestDataDir, objects: usize) {
    let server = data.start(&["--controllers="]);
    let maps: Api<ConfigMap> = Api::namespaced(client(&server.kubeconfig).await, "default");
    let made = stream::iter(0..objects).map(Ok::<_, kube::Error>);
    made.try_for_each_concurrent(128, |number| {
        let maps = maps.clone();
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("object-{number}")),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("text".to_owned(), "x".repeat(1000))])),
            ..ConfigMap::default()
        };
        async move { maps.create(&PostParams::default(), &map).await.map(drop) }
    })
    .await
    .unwrap();
    server.end_by(Signal::TERM);
}

#[tokio::test]
#[ignore = "measures for minutes: cargo test --release -p k3 --test data -- --ignored --nocapture objects_go_quickly"]
async fn migrates_objects_fast_to_etcd_and_mysql() {
    let objects = env::var("K3_OBJECTS").map_or(OBJECTS, |number| number.parse().unwrap());
    let data = TestDataDir::new();
    fill(&data, objects).await;
    let from = format!("file:{}", data.path().display());
    let name = format!("metrics_{}", std::process::id());
    let etcd = k3_test_services::etcd().replace("http://", "etcd://");
    for to in [
        format!("{etcd}?prefix=/{name}/"),
        format!("{}/{name}", k3_test_services::mysql()),
    ] {
        let (code, output, errors) = outcome(&mut k3(&["migrate", "--from", &from, "--to", &to]));
        assert_eq!(code, Some(0), "{errors}");
        println!("{output}");
        let rate = output.split(", ").find_map(|part| part.strip_suffix("/s"));
        let rate: u64 = rate.unwrap().parse().unwrap();
        assert!(cfg!(debug_assertions) || rate > ASKED, "{output}");
    }
}
