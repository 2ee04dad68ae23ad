//! Every field of every kind may be `null_fields`: the informers of all controllers read such objects.

use k3_test_objects::put_null_objects;
use kubecontroller::informer::InformerStats;

use super::TestCluster;
use crate::descriptors::CONTROLLERS;

#[tokio::test(start_paused = true)]
async fn informers_accept_null_in_every_field() {
    let cluster = TestCluster::new();
    assert!(put_null_objects(&cluster.api) > 10_000);
    let (informers, _events, _tasks) = cluster.make("one", |context| {
        let all = CONTROLLERS.iter();
        all.flat_map(|controller| (controller.make)(context)).collect()
    });
    informers.start();
    informers.wait_for_sync().await;
    let metrics = informers.stats();
    assert!(
        metrics.iter().filter(|informer| informer.objects > 0).count() > 20,
        "{metrics:#?}"
    );
    let bad = metrics
        .iter()
        .filter(|informer| informer.undecodable + informer.failures > 0);
    assert_eq!(bad.collect::<Vec<_>>(), Vec::<&InformerStats>::new());
}
