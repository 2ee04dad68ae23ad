//! Migrations, against an API in memory.

use k8s_openapi::{
    api::storagemigration::v1::StorageVersionMigration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kubecontroller::{
    resource::{Resource, ResourceScope},
    testing::{Fault, RequestMatcher, eventually},
};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, STORAGE_VERSION_MIGRATIONS},
    testing::{Scenario, TestCluster},
};

static CARTS: Resource = Resource::new("shop.example", "v2", "carts", "Cart", ResourceScope::Namespaced);

fn migration(cluster: &TestCluster, name: &str, group: &str, resource: &str) {
    cluster.put(
        &STORAGE_VERSION_MIGRATIONS,
        json!({
            "metadata": {"name": name, "generation": 1},
            "spec": {"resource": {"group": group, "resource": resource}},
        }),
    );
}

fn objects(cluster: &TestCluster, resource: &Resource, count: usize) {
    cluster
        .api
        .register_dynamic(&resource.api_resource(), ResourceScope::Namespaced);
    for number in 0..count {
        let metadata = json!({"name": format!("o{number}"), "namespace": "shop"});
        cluster.put(resource, json!({"metadata": metadata}));
    }
}

/// The conditions of a migration: type, status, reason and message.
fn conditions(cluster: &TestCluster, name: &str) -> Option<Value> {
    let migration = cluster.api.get::<StorageVersionMigration>("", name)?;
    let conditions = migration.status?.conditions?;
    let all = conditions.iter().map(|condition| {
        json!([
            condition.type_,
            condition.status,
            condition.reason,
            condition.message
        ])
    });
    Some(all.collect())
}

fn is_finished(conditions: &Value) -> bool {
    conditions[0][1] == "False"
}

/// Two migrations of one resource: one after the other.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        objects(cluster, &CARTS, 3);
        cluster.put(
            &CUSTOM_RESOURCE_DEFINITIONS,
            json!({
                "metadata": {"name": "carts.shop.example", "generation": 2},
                "spec": {"group": "shop.example", "names": {"kind": "Cart", "plural": "carts"}, "scope": "Namespaced",
                    "versions": [{"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": true, "storage": true}]},
                "status": {"storedVersions": ["v1", "v2"]},
            }),
        );
        migration(cluster, "a", "shop.example", "carts");
        migration(cluster, "b", "shop.example", "carts");
    },
    play: |_| {},
    end: |cluster| {
        let one = conditions(cluster, "a")?;
        let other = conditions(cluster, "b")?;
        let definition = cluster
            .api
            .get::<CustomResourceDefinition>("", "carts.shop.example")?;
        let stored = definition.status?.stored_versions;
        (is_finished(&one) && is_finished(&other)).then(|| json!({"a": one, "b": other, "stored": stored}))
    },
};

#[tokio::test(start_paused = true)]
async fn rewrites_all_objects() {
    let (end, _) = STORY.run().await;
    let over = json!([
        ["Running", "False", "MigrationCompleted", "Migration completed"],
        [
            "Succeeded",
            "True",
            "StorageVersionMigrationSucceeded",
            "Migration completed"
        ],
    ]);
    assert_eq!(end, json!({"a": over, "b": over, "stored": ["v2"]}));
}

#[tokio::test(start_paused = true)]
async fn rewrites_all_objects_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn rewrites_each_object_once() {
    let cluster = TestCluster::new();
    objects(&cluster, &CONFIG_MAPS, 3);
    migration(&cluster, "a", "", "configmaps");
    let _running = cluster.start("one", make);
    let end = || async { conditions(&cluster, "a").filter(is_finished) };
    eventually(end).await;
    let writes = cluster.api.writes();
    let patches: Vec<_> = writes
        .iter()
        .filter(|write| write.is_for("configmaps"))
        .map(|write| &write.body)
        .collect();
    assert_eq!(patches.len(), 3);
    for patch in patches {
        assert_eq!(patch["kind"], "ConfigMap");
        assert_eq!(
            patch["metadata"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["resourceVersion"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn reports_failed_migrations() {
    let cluster = TestCluster::new();
    objects(&cluster, &CONFIG_MAPS, 2);
    migration(&cluster, "unknown", "nowhere.example", "widgets");
    migration(&cluster, "refused", "", "configmaps");
    cluster.api.faults().on(
        RequestMatcher::verb("patch").resource("configmaps"),
        Fault::Status(403),
    );
    let _running = cluster.start("one", make);
    let end = || async { conditions(&cluster, "unknown").filter(is_finished) };
    let unknown = eventually(end);
    assert_eq!(
        unknown.await[1],
        json!([
            "Failed",
            "True",
            "StorageVersionMigrationFailed",
            "resource does not exist in discovery"
        ])
    );
    let end = || async { conditions(&cluster, "refused").filter(is_finished) };
    let refused = eventually(end).await;
    let message = refused[1][3].as_str().unwrap();
    assert!(
        message.starts_with("2/2 not yet migrated. migration encountered unhandled error: "),
        "{message}"
    );
}
