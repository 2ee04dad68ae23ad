//! Clients for the parts of this process: ordinary clients with an identity each, but without a socket.

use std::convert::Infallible;

use http::{HeaderValue, Request, header};
use k3_apiserver::{Server, User};
use kube::{Client, client::Body};

/// Who the parts are, as the server is told in their requests; it becomes their name among the managers of fields.
const CONTROLLERS: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));

/// A client of the server with the rights of a service account of `kube-system`.
pub(crate) fn controller(server: &Server, account: &str) -> Client {
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        "system:authenticated",
    ];
    let user = User {
        name: format!("system:serviceaccount:kube-system:{account}"),
        groups: groups.map(str::to_owned).to_vec(),
        ..User::default()
    };
    client(server, user, CONTROLLERS)
}

/// A client of the server with the rights of a user of the control plane, such as `system:kube-controller-manager`.
pub(crate) fn component(server: &Server, name: &str, agent: &'static str) -> Client {
    let user = User {
        name: name.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..User::default()
    };
    client(server, user, agent)
}

/// A client of the server that may do everything.
pub(crate) fn master(server: &Server, name: &str, agent: &'static str) -> Client {
    let user = User {
        name: name.to_owned(),
        groups: ["system:masters", "system:authenticated"]
            .map(str::to_owned)
            .to_vec(),
        ..User::default()
    };
    client(server, user, agent)
}

fn client(server: &Server, user: User, agent: &'static str) -> Client {
    let inside = server.inside(user);
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let inside = inside.clone();
        request
            .headers_mut()
            .insert(header::USER_AGENT, HeaderValue::from_static(agent));
        async move { Ok::<_, Infallible>(inside.ask(request).await) }
    });
    Client::new(service, "default")
}
