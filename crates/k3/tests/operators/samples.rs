//! What the examples do.

use at::{At, AtPhase, AtSpec};
use dummy::{Dummy, DummySpec};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use kubecontroller::{phase::Phased, testing::eventually};
use redismigration::{RedisMigration, RedisMigrationSpec};
use serde_json::json;
use workflow::Workflow;

use crate::TestCluster;

fn migration(name: &str, dest: &str) -> RedisMigration {
    let spec = RedisMigrationSpec {
        source: "ali-123".to_owned(),
        dest: dest.to_owned(),
    };
    RedisMigration::new(name, spec)
}

fn due(name: &str) -> At {
    let spec = AtSpec {
        schedule: "2020-01-01T00:00:00Z".to_owned(),
        command: "echo hello".to_owned(),
    };
    At::new(name, spec)
}

/// Waits until an object with phases is in one of them.
async fn reached<K: Phased>(api: &Api<K>, name: &str, phase: &str) -> K {
    eventually(|| async {
        let object = api.get(name).await.map_err(|error| error.to_string())?;
        if object.phase() == phase {
            Ok(object)
        } else {
            Err(format!("phase {}", object.phase()))
        }
    })
    .await
}

async fn done(ats: &Api<At>, name: &str) {
    let is_done = |at: &At| {
        at.status
            .as_ref()
            .is_some_and(|status| status.phase == AtPhase::Done)
    };
    eventually(|| async { ats.get(name).await.ok().filter(is_done) }).await;
}

#[tokio::test]
async fn every_example_completes() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.operator(&["--redismigration.wait=1s", "--controllers=*,-ticker"]);

    let migrations = cluster.api::<RedisMigration>();
    for (name, dest) in [("good", "tx-123"), ("bad", "")] {
        migrations
            .create(&PostParams::default(), &migration(name, dest))
            .await
            .unwrap();
    }
    let ats = cluster.api::<At>();
    ats.create(&PostParams::default(), &due("now")).await.unwrap();
    let dummies = cluster.api::<Dummy>();
    let spec = DummySpec {
        transition_defer: 1,
        data: "hello".to_owned(),
    };
    dummies
        .create(&PostParams::default(), &Dummy::new("d", spec))
        .await
        .unwrap();
    let workflows = cluster.api::<Workflow>();
    let graph = json!({
        "activities": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "edges": [{"obj1": "a", "obj2": "c"}, {"obj1": "b", "obj2": "c"}],
    });
    let workflow = Workflow::new("w", serde_json::from_value(graph).unwrap());
    workflows.create(&PostParams::default(), &workflow).await.unwrap();

    let good = reached(&migrations, "good", "Success").await.status.unwrap();
    assert_eq!(good.source_status.unwrap().name, "ALI-123");
    let bad = reached(&migrations, "bad", "Fail").await;
    assert_eq!(
        redismigration::machine().unwrap().failed_reason(&bad).as_deref(),
        Some("spec.dest is missing")
    );
    done(&ats, "now").await;
    let pod = cluster.api::<Pod>().get("now-pod").await.unwrap();
    assert_eq!(pod.metadata.owner_references.unwrap()[0].kind, "At");
    let copied = |dummy: &Dummy| dummy.status.as_ref().is_some_and(|status| status.data == "hello");
    eventually(|| async { dummies.get("d").await.ok().filter(copied) }).await;
    let ended = reached(&workflows, "w", "final").await.status.unwrap().entries;
    assert_eq!(ended["c"].order, Some(3));
}

#[tokio::test]
async fn disabled_controllers_do_nothing() {
    let cluster = TestCluster::start().await;
    let operator = cluster.operator(&["--enabled=ats"]);
    let dummies = cluster.api::<Dummy>();
    dummies
        .create(&PostParams::default(), &Dummy::new("d", DummySpec::default()))
        .await
        .unwrap();
    let ats = cluster.api::<At>();
    ats.create(&PostParams::default(), &due("now")).await.unwrap();
    // The At was created after the dummy: whoever worked on both would have been there first.
    done(&ats, "now").await;
    assert_eq!(dummies.get("d").await.unwrap().status, None);
    let log = operator.log();
    assert!(
        log.lines()
            .any(|line| line.contains("disabled") && line.contains("dummies")),
        "{log}"
    );
}

#[tokio::test]
async fn filters_hide_objects_from_a_controller() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.operator(&["--enabled=ats", "--resource-filter.ats=default/a*"]);
    let ats = cluster.api::<At>();
    for name in ["b", "apple"] {
        ats.create(&PostParams::default(), &due(name)).await.unwrap();
    }
    done(&ats, "apple").await;
    // A change of the other one is seen no more than the other one.
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    ats.patch("b", &PatchParams::default(), &label).await.unwrap();
    ats.create(&PostParams::default(), &due("avocado")).await.unwrap();
    done(&ats, "avocado").await;
    assert_eq!(ats.get("b").await.unwrap().status, None);
}
