//! Connections to addresses that objects name: the only place in the API server where they are made.
//!
//! Promises: an address is checked after its name is resolved, in its canonical form, and the checked address is the one
//! that is dialled. The server never dials itself, and never an address that no machine should have, such as those of
//! simulated nodes and pods, unless it is one of this machine. A name of which one address is refused is refused.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use k3_api::name::Subnet;
use parking_lot::RwLock;
use tokio::net::TcpStream;

use super::{
    address::{self, AddressError, DialRule},
    error::dial,
    interfaces,
};

/// Makes connections to addresses that objects name.
pub(crate) struct Dialer {
    network: Arc<dyn DialerNetwork>,
    /// Where this server listens, and where it is advertised.
    own: RwLock<Vec<SocketAddr>>,
    /// Addresses that lead to this server whatever the port: the address of the service `kubernetes`.
    own_hosts: Vec<IpAddr>,
    /// The addresses of services, which are neither nodes nor pods.
    services: Option<Subnet>,
}

/// What a dialer needs of the machine, so that tests need no network.
pub(crate) trait DialerNetwork: Send + Sync {
    /// The addresses of a host.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// A connection to an address.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;

    /// Whether an address is one of this machine.
    fn is_local(&self, ip: IpAddr) -> bool;
}

/// The network of this machine.
struct SystemNetwork;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    /// The address must not be dialled, and was not.
    #[error(transparent)]
    NotAllowed(AddressError),
    /// It was tried, or the host has no address.
    #[error("{0}")]
    Failed(String),
}

// --- Dialer ---

impl Default for Dialer {
    /// A dialer of a server that does not listen yet.
    fn default() -> Self {
        Dialer {
            network: Arc::new(SystemNetwork),
            own: RwLock::default(),
            own_hosts: Vec::new(),
            services: None,
        }
    }
}

impl Dialer {
    /// A dialer of a server that is advertised at `advertise`, and in the cluster at `kubernetes`.
    pub(crate) fn new(advertise: SocketAddr, kubernetes: IpAddr, services: Subnet) -> Self {
        Dialer {
            own: RwLock::new(vec![advertise]),
            own_hosts: vec![kubernetes.to_canonical()],
            services: Some(services),
            ..Dialer::default()
        }
    }

    /// The same with another network.
    #[cfg(test)]
    pub(crate) fn with_network(mut self, network: Arc<dyn DialerNetwork>) -> Self {
        self.network = network;
        self
    }

    /// Remembers an address at which this server listens.
    pub(crate) fn add_own(&self, address: SocketAddr) {
        self.own.write().push(address);
    }

    /// Connects to the first address of a host that answers.
    pub(crate) async fn connect(
        &self,
        rule: DialRule,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let unknown = || DialError::Failed(format!("dial tcp: lookup {host}: no such host"));
        let resolved = self.network.resolve(host, port).await;
        let addresses = resolved.map_err(|_| unknown())?;
        for address in &addresses {
            self.check(rule, *address).map_err(DialError::NotAllowed)?;
        }
        let mut error = unknown();
        for address in addresses {
            match self.network.connect(address).await {
                Ok(stream) => {
                    // A review is one small write; waiting to fill a packet only delays it.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(failed) => error = DialError::Failed(dial(&address.to_string(), &failed)),
            }
        }
        Err(error)
    }

    /// Why an address must not be dialled.
    fn check(&self, rule: DialRule, address: SocketAddr) -> Result<(), AddressError> {
        for ip in address::effective_addresses(address.ip()) {
            address::check(rule, ip, || self.network.is_local(ip))?;
            let is_service = self.services.is_some_and(|services| services.contains(ip));
            if is_service && matches!(rule, DialRule::Node | DialRule::Proxy) {
                return Err(AddressError::Service);
            }
            if self.is_own(ip, address.port()) {
                return Err(AddressError::ThisServer);
            }
        }
        Ok(())
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let own = self.own.read();
        let mut own = own.iter().filter(|own| own.port() == port);
        self.own_hosts.contains(&ip)
            || own.any(|own| {
                let own_ip = own.ip().to_canonical();
                own_ip == ip || (own_ip.is_unspecified() && (ip.is_loopback() || self.network.is_local(ip)))
            })
    }
}

// --- SystemNetwork ---

impl DialerNetwork for SystemNetwork {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }

    fn is_local(&self, ip: IpAddr) -> bool {
        interfaces::is_local(ip)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use parking_lot::Mutex;

    use super::*;

    /// A network in memory, which remembers what was dialled. Nothing answers.
    #[derive(Default)]
    pub(crate) struct FakeNetwork {
        pub(crate) names: HashMap<&'static str, Vec<&'static str>>,
        pub(crate) local: Vec<IpAddr>,
        pub(crate) dialled: Mutex<Vec<SocketAddr>>,
    }

    impl DialerNetwork for FakeNetwork {
        fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            let named = self.names.get(host).cloned();
            let texts = named.unwrap_or_else(|| vec![host]);
            let parsed: Result<Vec<IpAddr>, _> = texts.into_iter().map(str::parse).collect();
            let found = parsed.map(|ips| ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect());
            Box::pin(std::future::ready(found.map_err(io::Error::other)))
        }

        fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
            self.dialled.lock().push(address);
            Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())))
        }

        fn is_local(&self, ip: IpAddr) -> bool {
            self.local.contains(&ip)
        }
    }

    /// A server that listens at 127.0.0.1:6443 and at port 6444 of all addresses.
    fn dialer(network: &Arc<FakeNetwork>) -> Dialer {
        let services = k3_api::name::parse_cidr_sloppy("10.96.0.0/16").unwrap();
        let advertise = "172.31.0.1:6443".parse().unwrap();
        let dialer = Dialer::new(advertise, "10.96.0.1".parse().unwrap(), services);
        dialer.add_own("127.0.0.1:6443".parse().unwrap());
        dialer.add_own("[::]:6444".parse().unwrap());
        dialer.with_network(Arc::clone(network) as Arc<dyn DialerNetwork>)
    }

    async fn is_refused(rule: DialRule, host: &str, port: u16) -> bool {
        let network = Arc::new(FakeNetwork {
            names: HashMap::from([
                ("rebound", vec!["10.0.0.9", "127.0.0.1"]),
                ("plain", vec!["10.0.0.9"]),
                ("metadata", vec!["169.254.169.254"]),
                ("2130706433", vec!["127.0.0.1"]),
                ("0x7f.1", vec!["127.0.0.1"]),
            ]),
            local: ["192.168.7.7", "169.254.7.7", "192.0.2.7"]
                .map(|ip| ip.parse().unwrap())
                .to_vec(),
            ..FakeNetwork::default()
        });
        let error = dialer(&network).connect(rule, host, port).await.unwrap_err();
        let is_refused = matches!(error, DialError::NotAllowed(_));
        let dialled = network.dialled.lock().len();
        assert_eq!(dialled == 0, is_refused, "{host}:{port}: {error}");
        is_refused
    }

    #[tokio::test]
    async fn never_dials_itself() {
        for rule in [DialRule::Node, DialRule::Proxy, DialRule::Webhook] {
            for (host, port) in [
                ("127.0.0.1", 6443),
                ("::ffff:127.0.0.1", 6443),
                ("64:ff9b::7f00:1", 6443),
                ("2130706433", 6443),
                ("0x7f.1", 6443),
                ("rebound", 6443),
                ("172.31.0.1", 6443),
                ("::ffff:172.31.0.1", 6443),
                ("192.168.7.7", 6444),
                ("127.9.9.9", 6444),
                ("::1", 6444),
                ("10.96.0.1", 443),
                ("::ffff:10.96.0.1", 443),
            ] {
                assert!(is_refused(rule, host, port).await, "{rule:?} {host}:{port}");
            }
        }
    }

    #[tokio::test]
    async fn allows_local_nodes_and_rejects_loopback_pods() {
        assert!(!is_refused(DialRule::Node, "127.0.0.1", 10250).await);
        assert!(!is_refused(DialRule::Node, "192.168.7.7", 10250).await);
        assert!(!is_refused(DialRule::Node, "169.254.7.7", 10250).await);
        assert!(is_refused(DialRule::Node, "169.254.7.7", 6444).await);
        assert!(is_refused(DialRule::Node, "169.254.7.8", 10250).await);
        // A machine has the addresses that it has, also where they are those of examples.
        assert!(!is_refused(DialRule::Node, "192.0.2.7", 10250).await);
        assert!(is_refused(DialRule::Node, "192.0.2.8", 10250).await);
        assert!(is_refused(DialRule::Proxy, "169.254.7.7", 10250).await);
        assert!(!is_refused(DialRule::Webhook, "127.0.0.1", 9443).await);
        assert!(is_refused(DialRule::Proxy, "127.0.0.1", 10250).await);
        assert!(!is_refused(DialRule::Proxy, "192.168.7.7", 6443).await);
        for rule in [DialRule::Node, DialRule::Proxy, DialRule::Webhook] {
            assert!(!is_refused(rule, "plain", 6443).await);
        }
    }

    #[tokio::test]
    async fn checks_address_after_resolution() {
        assert!(is_refused(DialRule::Proxy, "rebound", 80).await);
        assert!(is_refused(DialRule::Proxy, "metadata", 80).await);
        assert!(is_refused(DialRule::Node, "metadata", 80).await);
    }

    #[tokio::test]
    async fn service_addresses_only_for_webhooks() {
        assert!(is_refused(DialRule::Node, "10.96.3.4", 443).await);
        assert!(is_refused(DialRule::Proxy, "10.96.3.4", 443).await);
        assert!(!is_refused(DialRule::Webhook, "10.96.3.4", 443).await);
        assert!(!is_refused(DialRule::WebhookService, "10.96.3.4", 443).await);
    }

    #[test]
    fn detects_local_addresses() {
        assert!(SystemNetwork.is_local("127.0.0.1".parse().unwrap()));
        assert!(!SystemNetwork.is_local("198.18.0.1".parse().unwrap()));
    }
}
