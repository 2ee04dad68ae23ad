//! Clients of control plane components, each with its own identity. In the process of the server they need no socket;
//! elsewhere they use HTTPS and impersonation.

use std::convert::Infallible;

use http::{HeaderName, HeaderValue, Request, header};
use k3_apiserver::{Server, User};
use kube::{Client, Config, client::Body};

use crate::command_error::CommandError;

/// User agent of controllers, which becomes their field manager.
const CONTROLLERS: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));

/// User agent of nodes.
pub(crate) const KUBELET: &str = concat!("kubelet/", env!("CARGO_PKG_VERSION"));

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

const AUTHENTICATED: &str = "system:authenticated";

/// Creates API clients.
pub(crate) enum ClientFactory<'s> {
    /// The server is in this process.
    InProcess(&'s Server),
    /// The server is remote. The user of the configuration impersonates others, so it must be in `system:masters`.
    Remote(Box<Config>),
}

// --- ClientFactory ---

impl ClientFactory<'_> {
    /// A client with the permissions of a service account in `kube-system`.
    pub(crate) fn controller(&self, account: &str) -> Result<Client, CommandError> {
        let groups = [
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            AUTHENTICATED,
        ];
        let name = format!("system:serviceaccount:kube-system:{account}");
        self.client(name, &groups, CONTROLLERS)
    }

    /// A client with the permissions of a control plane user, such as `system:kube-controller-manager`.
    pub(crate) fn component(&self, name: &str, agent: &'static str) -> Result<Client, CommandError> {
        self.client(name.to_owned(), &[AUTHENTICATED], agent)
    }

    /// A client in `system:masters`.
    pub(crate) fn master(&self, name: &str, agent: &'static str) -> Result<Client, CommandError> {
        self.client(name.to_owned(), &["system:masters", AUTHENTICATED], agent)
    }

    /// A client with the permissions of a node.
    pub(crate) fn node(&self, name: &str) -> Result<Client, CommandError> {
        self.client(
            format!("system:node:{name}"),
            &["system:nodes", AUTHENTICATED],
            KUBELET,
        )
    }

    fn client(&self, name: String, groups: &[&str], agent: &'static str) -> Result<Client, CommandError> {
        match self {
            ClientFactory::InProcess(server) => {
                let user = User {
                    name,
                    groups: groups.iter().map(|group| (*group).to_owned()).collect(),
                    ..User::default()
                };
                Ok(in_process_client(server, user, agent))
            }
            ClientFactory::Remote(config) => {
                let mut config = (**config).clone();
                let server = config.cluster_url.to_string();
                let user = [(IMPERSONATE_USER, &*name), (header::USER_AGENT, agent)];
                let groups = groups.iter().map(|group| (IMPERSONATE_GROUP, *group));
                for (header, value) in user.into_iter().chain(groups) {
                    let value = HeaderValue::from_str(value).map_err(|error| {
                        CommandError::new(format!("cannot impersonate {name}"), "this should not happen")
                            .caused_by(error)
                    })?;
                    config.headers.push((header, value));
                }
                Client::try_from(config).map_err(|error| {
                    let advice = "check the kubeconfig";
                    CommandError::new(format!("cannot connect to {server}"), advice).caused_by(error)
                })
            }
        }
    }
}

fn in_process_client(server: &Server, user: User, agent: &'static str) -> Client {
    let in_process = server.in_process(user);
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let in_process = in_process.clone();
        request
            .headers_mut()
            .insert(header::USER_AGENT, HeaderValue::from_static(agent));
        async move { Ok::<_, Infallible>(in_process.ask(request).await) }
    });
    Client::new(service, "default")
}
