//! An etcd for this process, and a prefix in it for each backend.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use k3_storage::{
    Store,
    etcd::{EtcdOptions, EtcdStore},
};
use k3_test_services::ServiceError;

use super::TestBackend;

pub(crate) struct Etcd {
    options: EtcdOptions,
}

/// The endpoint. Compaction affects a whole etcd: a test on a shared one
/// would take the history of the others away. One of our own is cheap, with elections in no time.
fn endpoint() -> &'static str {
    static OWN: OnceLock<Option<k3_test_services::Etcd>> = OnceLock::new();
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    let own = OWN.get_or_init(|| match start() {
        Ok(etcd) => Some(etcd),
        // Then what the environment offers must do.
        Err(ServiceError::Missing { .. }) => None,
        Err(error) => panic!("cannot start an etcd: {error}"),
    });
    match own {
        Some(etcd) => ENDPOINT.get_or_init(|| etcd.endpoint()),
        None => k3_test_services::etcd(),
    }
}

/// Starts an etcd that is its own leader within a blink.
pub(crate) fn start() -> Result<k3_test_services::Etcd, ServiceError> {
    let args = [
        "--heartbeat-interval=20",
        "--election-timeout=100",
        // The default is exactly the largest value, and leaves no space for its key.
        "--max-request-bytes=1600000",
    ];
    k3_test_services::Etcd::start_with(&k3_test_services::EtcdOptions {
        args: args.map(str::to_owned).into(),
        ..Default::default()
    })
}

#[async_trait]
impl TestBackend for Etcd {
    async fn fresh() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let endpoint = tokio::task::spawn_blocking(endpoint).await.unwrap();
        Self {
            options: EtcdOptions {
                prefix: format!("/suite-{}-{number}/", std::process::id()),
                ..EtcdOptions::at([endpoint])
            },
        }
    }

    async fn another(&self) -> Box<dyn TestBackend> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        EtcdStore::open(self.options.clone()).await.unwrap()
    }
}
