//! A node in a separate process: it joins, and is then a client of the API.

use std::{path::Path, time::UNIX_EPOCH};

use http::{Request, Uri};
use k3_node::signing::SigningError;
use kube::{Client, Config, config::AuthInfo};
use kubecontroller::Clock;
use kubecontroller::manager::Stop;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use super::{
    CertificatePin, JoinToken, NodeIdentity, ServerList, authority, renewal::NodeRenewal,
    servers::CurrentServer,
};
use crate::{
    certificates,
    command_error::{CommandError, advice_for_status},
    data_dir::is_data_file,
    file_format, secret_file,
    server::{self, ApiEndpoint, NodeSettings},
};

/// How a node gets its first certificate.
pub(crate) enum JoinMethod {
    /// The node has a certificate.
    Existing,
    /// With a join token.
    Token(ServerList, JoinToken),
    /// With the kubeconfig of a user who may request node certificates, such as an administrator.
    Kubeconfig(Box<Config>),
}

/// Creates the data directory, or rejects one of a newer version.
fn claim_data_dir(data_dir: &Path) -> Result<(), CommandError> {
    secret_file::protect_directory(data_dir, is_data_file).map_err(|error| {
        let advice = "choose a directory that this user may write to with --data-dir";
        CommandError::new("cannot use the data directory", advice).caused_by(error)
    })?;
    file_format::claim_data_dir(data_dir)
}

/// Joins if necessary, and runs a node until `stop`.
pub(crate) async fn run(
    method: JoinMethod,
    servers: Option<ServerList>,
    settings: NodeSettings,
    data_dir: &Path,
    stop: Stop,
) -> Result<(), CommandError> {
    claim_data_dir(data_dir)?;
    let directory = data_dir.join("node");
    let name = settings.name.to_lowercase();
    let mut identity = if let Some(known) = stored_identity(&method, &name, &directory)? {
        known
    } else {
        let joining = Box::pin(join(&method, &name));
        let Some(joined) = stop.unless_stopped(joining).await else {
            return Ok(());
        };
        let joined = joined?;
        joined.write(&directory).map_err(|error| {
            let advice = "check that this user may write to the data directory";
            CommandError::new("cannot store the certificate of this node", advice).caused_by(error)
        })?;
        tracing::info!("joined {} as node {name}", joined.server);
        joined
    };
    let mut configured = Vec::new();
    if let Some(servers) = servers {
        identity.server = servers.first().to_string();
        configured.extend(servers.all().iter().skip(1).map(ToString::to_string));
        identity.others.splice(..0, configured.iter().cloned());
    }
    let (address, port) = server_address(&identity.server)?;
    let api = ApiEndpoint {
        address,
        port,
        authority: &identity.authority,
    };
    let current = CurrentServer::new(identity.clients()?);
    tracing::info!("node {name} of {}", identity.server);
    let config = server::node_config(settings, data_dir, &api);
    let (trust, trusted) = watch::channel(identity.authority.clone());
    let agent = server::run_renewed(config, current.client(), stop.clone(), trusted);
    let renewal = NodeRenewal {
        identity,
        current,
        configured,
        directory,
        trust,
    };
    tokio::join!(agent, stop.unless_stopped(renewal.run()));
    Ok(())
}

/// Host and port of a server.
fn server_address(server: &str) -> Result<(String, u16), CommandError> {
    let invalid = || {
        CommandError::new(
            format!("the stored server URL {server:?} is invalid"),
            "add --server URL, such as https://10.0.0.1:6443",
        )
    };
    let uri: Uri = server.parse().map_err(|error| invalid().caused_by(error))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(invalid)?;
    Ok((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

/// The stored identity, if it is still valid.
fn stored_identity(
    method: &JoinMethod,
    name: &str,
    directory: &Path,
) -> Result<Option<NodeIdentity>, CommandError> {
    let stored = NodeIdentity::read(directory)?;
    let reason = match &stored {
        None => "this machine has not joined a cluster".to_owned(),
        Some(stored) if stored.name != name => {
            format!("this machine has joined as {}, not as {name}", stored.name)
        }
        Some(stored) if stored.period().is_none_or(|(_, end)| end <= unix_now()) => {
            "the certificate of this node has expired".to_owned()
        }
        Some(stored) => {
            let known = stored.authorities();
            let is_of_token = |token: &JoinToken| {
                known
                    .iter()
                    .any(|der| CertificatePin::of_certificate(der) == token.pin)
            };
            match method {
                JoinMethod::Token(_, token) if !is_of_token(token) => {
                    "it has joined another cluster".to_owned()
                }
                _ => String::new(),
            }
        }
    };
    match (stored, method) {
        (Some(stored), _) if reason.is_empty() => Ok(Some(stored)),
        (_, JoinMethod::Existing) => Err(CommandError::new(
            reason,
            "join with --server URL --token TOKEN, as `k3 token create --join` prints it on a machine of the cluster",
        )),
        (stored, _) => {
            if stored.is_some() {
                tracing::info!("joining again: {reason}");
            }
            Ok(None)
        }
    }
}

/// Returns the first server that responds, and its certificate authority.
async fn find_server(
    servers: &ServerList,
    pin: CertificatePin,
) -> Result<(Uri, CertificateDer<'static>), CommandError> {
    let mut first_failure = None;
    for server in servers.all() {
        match authority::find_authority(server, pin).await {
            Ok(authority) => return Ok((server.clone(), authority)),
            Err(failure) => first_failure = first_failure.or(Some(failure)),
        }
    }
    Err(first_failure.unwrap_or_else(|| CommandError::usage("no server is configured", "add --server URL")))
}

/// Requests the first certificate.
async fn join(method: &JoinMethod, name: &str) -> Result<NodeIdentity, CommandError> {
    let config = match method {
        JoinMethod::Existing => unreachable!("a node with a certificate does not join"),
        JoinMethod::Token(servers, token) => {
            let (server, authority) = find_server(servers, token.pin).await?;
            let mut config = Config::new(server);
            config.root_cert = Some(vec![authority.to_vec()]);
            config.auth_info = AuthInfo {
                token: Some(token.bearer().into()),
                ..AuthInfo::default()
            };
            config
        }
        JoinMethod::Kubeconfig(config) => (**config).clone(),
    };
    let server = config.cluster_url.clone();
    let authority = config
        .root_cert
        .iter()
        .flatten()
        .map(|der| certificates::pem(der))
        .collect::<String>();
    tracing::info!("joining {server} as node {name}");
    let client = Client::try_from(config).map_err(|error| {
        CommandError::new(format!("cannot connect to {server}"), "check --server").caused_by(error)
    })?;
    let request = Request::get(format!("/api/v1/nodes/{name}"));
    let request = request.body(Vec::new()).map_err(|error| {
        CommandError::usage(
            format!("{name} is not a valid node name"),
            "choose another with --node-name",
        )
        .caused_by(error)
    })?;
    match client.request::<serde_json::Value>(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(join_failure(error)),
        Ok(_) => {
            return Err(CommandError::new(
                format!("a node {name} already exists in the cluster"),
                format!(
                    "choose another name with --node-name; or, if that node no longer exists, `kubectl delete node {name}`"
                ),
            ));
        }
    }
    NodeIdentity::request(&client, name, &server, &authority)
        .await
        .map_err(|error| match error {
            SigningError::Api(error) => join_failure(error),
            error => CommandError::new(
                "the cluster did not sign the certificate of this node",
                "check `kubectl get csr`, and that the controllers of the cluster run",
            )
            .caused_by(error),
        })
}

fn join_failure(error: kube::Error) -> CommandError {
    let advice = match &error {
        kube::Error::Api(status) if status.code == 401 => {
            return CommandError::new(
                "the server rejected the token: it has expired or was revoked",
                "create another with `k3 token create --join` on a machine of the cluster",
            );
        }
        kube::Error::Api(status) if status.code == 403 => {
            "use a token of `k3 token create --join`, or the kubeconfig of an administrator"
        }
        kube::Error::Api(status) => advice_for_status(status.code),
        _ => {
            "check that the server runs and that its certificate is valid for the name in --server; --tls-san adds names"
        }
    };
    CommandError::new("cannot join", advice).caused_by(error)
}

pub(super) fn unix_now() -> i64 {
    let since = Clock::system()
        .system_time()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::server_address;

    #[test]
    fn invalid_server_url_has_no_address() {
        assert_eq!(
            server_address("https://node-1:7443").unwrap(),
            ("node-1".to_owned(), 7443)
        );
        assert_eq!(
            server_address("https://10.0.0.1/").unwrap(),
            ("10.0.0.1".to_owned(), 443)
        );
        for invalid in ["", "/no/host", "https://a b"] {
            let error = server_address(invalid).unwrap_err().to_string();
            assert!(
                error.contains("the stored server URL") && error.contains(invalid),
                "{error}"
            );
        }
    }
}
