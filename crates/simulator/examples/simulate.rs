//! Simulates nodes in the cluster of the current kubeconfig: `simulate NODES [RULES]`.

use std::{env, error::Error};

use k3_simulator::{Rules, Simulator};
use kubecontroller::{
    Clock,
    informer::SharedInformerFactory,
    manager::{Runnable, Stop},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = env::args().skip(1);
    let count = arguments.next().ok_or("how many nodes?")?.parse()?;
    let rules = match arguments.next() {
        Some(path) => Rules::load(path.as_ref())?,
        None => Rules::default(),
    };
    let client = kube::Client::try_default().await?;
    let informers = SharedInformerFactory::new(client.clone());
    let simulator = Simulator::new(client, informers, Clock::system(), count, rules);
    simulator.run(Stop::new()).await
}
