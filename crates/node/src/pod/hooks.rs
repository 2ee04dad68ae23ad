//! What containers want to be done after their start and before their end.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod},
    apimachinery::pkg::util::intstr::IntOrString,
};
use tokio::net::TcpStream;

use super::told;
use crate::runtime::{ContainerId, Runtime};

/// Whose hook is run.
pub(super) struct Hooked<'a> {
    /// What runs the container.
    pub runtime: &'a dyn Runtime,
    /// Its pod.
    pub pod: &'a Pod,
    /// As the pod describes it.
    pub container: &'a Container,
    /// As the runtime knows it.
    pub id: &'a ContainerId,
    /// The addresses of the pod.
    pub addresses: &'a [IpAddr],
}

/// Runs a hook, at most for `limit`. The error is what the container's status says; it may hold secrets, so events do not.
pub(super) async fn run(hooked: &Hooked<'_>, hook: &LifecycleHandler, limit: Duration) -> Result<(), String> {
    let (container, pod) = (&hooked.container.name, told::name(hooked.pod));
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let failed = |error: String, output: &str| {
            let command = command.join(" ");
            format!(
                "Exec lifecycle hook ([{command}]) for Container \"{container}\" in Pod \"{pod}\" failed - error: {error}, message: {output:?}"
            )
        };
        let output = hooked.runtime.exec_sync(hooked.id, &command, limit).await;
        let output = output.map_err(|error| failed(error.to_string(), ""))?;
        if output.code != 0 {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            let error = format!(
                "command '{}' exited with {}: {}",
                command.join(" "),
                output.code,
                text.trim_end()
            );
            return Err(failed(error, &text));
        }
        return Ok(());
    }
    if let Some(get) = &hook.http_get {
        let path = get.path.as_deref().unwrap_or_default();
        let failed = |error| {
            format!(
                "HTTP lifecycle hook ({path}) for Container \"{container}\" in Pod \"{pod}\" failed - error: {error}"
            )
        };
        let asked = tokio::time::timeout(limit, http_get(hooked, get)).await;
        return asked
            .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
            .map_err(failed);
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err("Cannot run handler: invalid handler".to_owned())
}

/// Asks for a page; that somebody answers is enough.
async fn http_get(hooked: &Hooked<'_>, get: &HTTPGetAction) -> Result<(), String> {
    let host = match get.host.as_deref().filter(|host| !host.is_empty()) {
        Some(host) => host.to_owned(),
        None => hooked
            .addresses
            .first()
            .map(ToString::to_string)
            .ok_or("failed to find networking container")?,
    };
    let port = port(&get.port, hooked.container)?;
    let path = get.path.as_deref().unwrap_or("/");
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| said(&error))?;
    let authority = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let mut request = http::Request::get(path)
        .header("Host", &authority)
        .header("Accept", "*/*");
    let mut has_agent = false;
    for header in get.http_headers.iter().flatten() {
        has_agent |= header.name.eq_ignore_ascii_case("user-agent");
        request = request.header(&header.name, &header.value);
    }
    if !has_agent {
        request = request.header("User-Agent", "kube-lifecycle/1.37");
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| said(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| said(&error))?;
    tokio::select! {
        answer = sender.send_request(request) => answer.map(|_| ()).map_err(|error| said(&error)),
        ended = connection => ended.map_err(|error| said(&error)),
    }
}

/// A port by its number or by its name in the container.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(text));
            named
                .map(|port| port.container_port)
                .or_else(|| text.parse().ok())
        }
    };
    let number = number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number > 0);
    number.ok_or_else(|| match port {
        IntOrString::Int(number) => format!("invalid port number: {number}"),
        IntOrString::String(text) => format!("couldn't find port: \"{text}\" in pod"),
    })
}
