//! Two masters on one store.

use k3_test_services::etcd;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;

use crate::{
    process::{client, deploy, placed},
    program::Data,
};

#[tokio::test]
async fn two_masters_do_the_work_once_and_the_other_takes_over_after_a_crash() {
    let prefix = format!("/masters-{}/", std::process::id());
    let endpoint = etcd();
    let flags = [
        "--storage=etcd".to_owned(),
        format!("--etcd-servers={endpoint}"),
        format!("--etcd-prefix={prefix}"),
    ];
    let flags: Vec<&str> = flags
        .iter()
        .map(String::as_str)
        .chain(["--simulated-nodes=2"])
        .collect();
    let [first, second] = [(); 2].map(|()| Data::new());
    let leader = first.start(&flags);
    let of_leader = client(&leader.kubeconfig).await;
    deploy(&of_leader, "one", 3).await;
    placed(&of_leader, "one", 3).await;
    let follower = second.start(&flags);
    // A certificate of one is good at the other.
    let text = std::fs::read_to_string(&leader.kubeconfig).unwrap();
    let crossed = second.path().join("crossed");
    let ports = [&leader, &follower].map(|server| format!("https://127.0.0.1:{}", server.port()));
    std::fs::write(&crossed, text.replace(&ports[0], &ports[1])).unwrap();
    let crossed = client(&crossed).await;
    deploy(&crossed, "two", 3).await;
    placed(&crossed, "two", 3).await;
    let leases = Api::<Lease>::namespaced(crossed.clone(), "kube-system");
    let holder = async || {
        leases
            .get("kube-controller-manager")
            .await
            .unwrap()
            .spec
            .unwrap()
            .holder_identity
    };
    let before = holder().await;
    leader.end_by(Signal::KILL);
    deploy(&crossed, "three", 3).await;
    placed(&crossed, "three", 3).await;
    placed(&crossed, "one", 3).await;
    assert_ne!(holder().await, before);
}
