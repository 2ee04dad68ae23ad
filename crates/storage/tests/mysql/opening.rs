//! Opening: settings, tables, formats.

use k3_storage::{
    OpenError, Revision, Store, StoreError,
    mysql::{MysqlOptions, MysqlStore},
};
use tokio::task::JoinSet;

use crate::server::{TestServer, create, key, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_create_the_database_concurrently() {
    let server = TestServer::start();
    let options = MysqlOptions {
        database: "k3-race$_1".to_owned(),
        ..server.options.clone()
    };
    let mut opens = JoinSet::new();
    for _ in 0..12 {
        opens.spawn(MysqlStore::open(options.clone()));
    }
    let stores = opens.join_all().await;
    let mut newest = Revision::FIRST;
    for (n, store) in stores.iter().enumerate() {
        let store = store.as_ref().unwrap();
        let committed = create(store, &format!("/{n}"), "x").await;
        assert_eq!(committed, newest.next());
        newest = committed;
    }
}

#[tokio::test]
async fn rejects_data_of_a_newer_format_without_changing_it() {
    let server = TestServer::start();
    let store = server.open().await;
    create(&store, "/a", "x").await;
    store.close().await;
    let mut admin = server.admin().await;
    run(&mut admin, "UPDATE k3_store SET format = 2").await;
    match MysqlStore::open(server.options.clone()).await.map(drop) {
        Err(OpenError::NewerFormat { found, known, .. }) => assert_eq!((found, known), (2, 1)),
        other => panic!("{other:?}"),
    }
    run(&mut admin, "UPDATE k3_store SET format = 1").await;
    let store = server.open().await;
    assert!(store.get(&key("/a")).await.unwrap().is_some());
}

#[tokio::test]
async fn reports_a_wrong_password_without_printing_it() {
    let server = TestServer::start();
    let options = MysqlOptions {
        password: "open sesame".to_owned(),
        ..server.options.clone()
    };
    let refused = MysqlStore::open(options).await.map(drop).unwrap_err();
    let shown = format!("{refused} {refused:?}");
    assert!(
        matches!(refused, OpenError::Store(StoreError::Unavailable { .. })),
        "{shown}"
    );
    assert!(shown.contains("1045"), "{shown}");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[tokio::test]
async fn rejects_invalid_settings_before_connecting() {
    let options = MysqlOptions {
        database: "k3`; DROP DATABASE mysql; --".to_owned(),
        ..MysqlOptions::default()
    };
    let refused = MysqlStore::open(options).await.map(drop);
    assert!(
        matches!(
            refused,
            Err(OpenError::InvalidSetting {
                setting: "database",
                ..
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_unreachable_server_is_an_error() {
    let options = MysqlOptions {
        port: k3_test_services::free_port().unwrap(),
        ..MysqlOptions::default()
    };
    let refused = MysqlStore::open(options).await.map(drop);
    assert!(
        matches!(refused, Err(OpenError::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
}
