//! Operators that are written with kubecontroller, beside a running k3.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod leaders;
mod operator;
#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;
mod samples;
mod service;
mod ticker;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config, CustomResourceExt,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use kubecontroller::testing::eventually;

use self::{
    operator::TickerOperator,
    program::{Server, TestDataDir},
};

/// A server with the definitions of all examples, and a client that is its administrator.
struct TestCluster {
    client: Client,
    server: Server,
    _data: TestDataDir,
}

impl TestCluster {
    async fn start() -> Self {
        let data = TestDataDir::new();
        let server = data.start(&["--storage=memory"]);
        let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
        let cluster = TestCluster {
            client,
            server,
            _data: data,
        };
        cluster.define().await;
        cluster
    }

    /// Creates the definitions, and waits until they are served.
    async fn define(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let all = [
            at::At::crd(),
            dummy::Dummy::crd(),
            redismigration::RedisMigration::crd(),
            workflow::Workflow::crd(),
        ];
        for crd in &all {
            crds.create(&PostParams::default(), crd).await.unwrap();
        }
        let is_established = |crd: &CustomResourceDefinition| {
            let conditions = crd
                .status
                .as_ref()
                .and_then(|status| status.conditions.clone())
                .unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True")
        };
        for crd in &all {
            let name = crd.metadata.name.as_deref().unwrap();
            eventually(|| async { crds.get(name).await.ok().filter(is_established) }).await;
        }
    }

    /// An operator beside it, with these flags.
    fn operator(&self, args: &[&str]) -> TickerOperator {
        let kubeconfig = format!("--kubeconfig={}", self.server.kubeconfig.display());
        TickerOperator::start(&[&[kubeconfig.as_str()], args].concat())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }
}
