//! Renewal of a running node: its certificate, its trusted authorities, and its list of servers.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use http::{Request, Uri};
use k8s_openapi::api::core::v1::Endpoints;
use kube::Client;
use tokio::{
    sync::watch,
    time::{Duration, sleep},
};

use super::{NodeIdentity, authority, node::unix_now, servers::CurrentServer};
use crate::{certificates, command_error::CommandError};

/// Interval between checks.
const SYNC_PERIOD: Duration = Duration::from_secs(30);
/// The endpoints of the API servers, which nodes may read.
const SERVERS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Renews certificate, authorities and servers of a joined node.
pub(super) struct NodeRenewal {
    pub(super) identity: NodeIdentity,
    /// The clients in use.
    pub(super) current: CurrentServer,
    /// Configured servers besides the first one.
    pub(super) configured: Vec<String>,
    /// The directory of the node.
    pub(super) directory: PathBuf,
    /// The trusted authorities. The agent is restarted when they change; pods keep running.
    pub(super) trust: watch::Sender<String>,
}

// --- NodeRenewal ---

impl NodeRenewal {
    /// Checks periodically, forever.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(failure) = self.sync().await {
                tracing::warn!("failed to renew this node: {failure}");
            }
            sleep(SYNC_PERIOD).await;
        }
    }

    async fn sync(&mut self) -> Result<(), CommandError> {
        let mut new = self.identity.clone();
        let client = self.current.client();
        new.authority = self.authorities().await;
        let is_changed = new.authority != self.identity.authority;
        if let Some(found) = api_servers(&client).await {
            new.others.clear();
            for other in self.configured.iter().cloned().chain(found) {
                if other != new.server && !new.others.contains(&other) {
                    new.others.push(other);
                }
            }
        }
        // A certificate of an authority that is being replaced would become invalid with it; the next authority signs the new one.
        let is_due = new
            .period()
            .is_none_or(|(from, to)| unix_now() >= from + (to - from) / 5 * 4);
        if is_changed || is_due {
            new.renew(&client).await.map_err(|error| {
                let advice = "check `kubectl get csr`, and that the controllers of the cluster run";
                CommandError::new("the certificate request was not signed", advice).caused_by(error)
            })?;
        } else if new.others == self.identity.others {
            return Ok(());
        }
        self.current.set(new.clients()?);
        // If the file cannot be written, the next start uses the old certificate, which may still be valid.
        new.write(&self.directory).map_err(|error| {
            let advice = "check that this user may write to the data directory";
            CommandError::new("cannot store the certificate of this node", advice).caused_by(error)
        })?;
        if is_changed || is_due {
            tracing::info!("renewed the certificate of this node");
        }
        if is_changed {
            tracing::info!("trusting new certificate authorities of the cluster");
            self.trust.send_replace(new.authority.clone());
        }
        self.identity = new;
        Ok(())
    }

    /// Returns the authorities of the current server, or the known ones if it does not respond.
    async fn authorities(&self) -> String {
        let known = &self.identity.authority;
        let Some(server) = self.identity.servers().nth(self.current.index()) else {
            return known.clone();
        };
        let Ok(server) = server.parse::<Uri>() else {
            return known.clone();
        };
        match authority::current_authorities(&server, self.identity.authorities()).await {
            Ok(now) if !now.is_empty() => now.iter().map(|der| certificates::pem(der)).collect(),
            Ok(_) => known.clone(),
            Err(error) => {
                tracing::debug!(%error, %server, "failed to fetch the certificate authorities");
                known.clone()
            }
        }
    }
}

/// Returns the API servers of the cluster; `None` if the request fails.
async fn api_servers(client: &Client) -> Option<Vec<String>> {
    let request = Request::get(SERVERS).body(Vec::new()).expect("the path is valid");
    let endpoints = kubecontroller::decode::request::<Endpoints>(client, request).await;
    let endpoints = endpoints
        .inspect_err(|error| tracing::debug!(%error, "failed to fetch the servers of the cluster"))
        .ok()?;
    let mut servers = Vec::new();
    for subset in endpoints.subsets.into_iter().flatten() {
        for port in subset.ports.iter().flatten() {
            for address in subset.addresses.iter().flatten() {
                let ip: IpAddr = address.ip.parse().ok()?;
                let port = u16::try_from(port.port).ok()?;
                servers.push(format!("https://{}/", SocketAddr::new(ip, port)));
            }
        }
    }
    Some(servers)
}
