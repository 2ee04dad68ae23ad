//! The `proxy` subresource of pods, services and nodes.

use std::cell::RefCell;

use http::{HeaderValue, Method, header};
use k3_api::{
    go,
    kinds::{Kind, builtin},
    name::parse_ip_sloppy,
    status::Status,
    strategy::Tree,
};
use serde_json::Value;

use super::connect::ConnectStorage;
use crate::{
    http::{self as web, HttpResponse},
    outgoing::{
        DialRule, NodeCertificateCheck, NodeConnectionInfo, ProxyError, ProxyLocation, ProxyRequest,
        endpoints, simulated_node, unreachable_node,
    },
    registry::{RequestContext, Resource, freshness::read_index, random_number},
};

/// A parsed proxy target: scheme, name and port.
#[derive(Debug, PartialEq, Eq)]
struct ProxyTarget<'n> {
    is_tls: bool,
    name: &'n str,
    /// A number or a name; empty if it was not said.
    port: &'n str,
}

/// Headers by which browsers would let other sites read what is passed on.
const FOR_OTHER_SITES: [header::HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

// --- ConnectStorage ---

impl ConnectStorage {
    /// A request to be passed on to a service, a pod or a node.
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go ServeHTTP
    pub(crate) async fn proxy(
        &self,
        ctx: &RequestContext,
        mut passed: ProxyRequest,
    ) -> Result<HttpResponse, Status> {
        let path = rest_of_path(&passed.path, &ctx.target.kind).to_owned();
        self.admit(ctx, &path).await?;
        read_index(&self.caches).await?;
        let named = ProxyTarget::read(&ctx.target.name).ok_or_else(|| {
            Status::bad_request(format!(
                "invalid {} request {}",
                ctx.target.kind.singular,
                go::quote(&ctx.target.name)
            ))
        })?;
        let mut location = match &*ctx.target.kind.kind {
            "Service" => self.service_location(ctx, &named)?,
            "Pod" => self.pod_location(ctx, &named)?,
            _ => self.own_location(&named)?,
        };
        location.path = path;
        location.query.clone_from(&passed.query);
        if passed.wants_upgrade() {
            return location.converse(passed).await.map_err(failed_stream);
        }
        // Without a slash at its end pages would look for their parts in the wrong place.
        if location.path.is_empty() && matches!(passed.method, Method::GET | Method::HEAD) {
            return Ok(moved(&passed));
        }
        let prefix = passed
            .path
            .strip_suffix(location.path.as_str())
            .unwrap_or_default()
            .to_owned();
        if let Ok(value) = HeaderValue::from_str(&passed.path) {
            passed.headers.insert("x-forwarded-uri", value);
        }
        let hosts = [authority(&location), passed.host.clone()];
        let mut answer = location.pass(passed).await.map_err(|failed| match failed {
            ProxyError::NotAllowed(why) => Status::bad_request(why.to_string()),
            failed => Status::service_unavailable(format!("error trying to reach service: {failed}")),
        })?;
        for name in FOR_OTHER_SITES {
            answer.headers_mut().remove(name);
        }
        rewrite(&mut answer, &prefix, &hosts);
        Ok(answer)
    }

    // upstream: pkg/registry/core/pod/strategy.go ResourceLocation
    fn pod_location(&self, ctx: &RequestContext, named: &ProxyTarget<'_>) -> Result<ProxyLocation, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let pod = object(&resource, &ctx.target.namespace, named.name)?;
        let node = pod.at("spec").text("nodeName");
        if self.nodes.is_simulated(node) {
            return Err(simulated_node(node));
        }
        let first = || {
            let mut containers = pod.at("spec").items("containers").iter();
            containers.find_map(|container| container.items("ports").first()?.int("containerPort"))
        };
        let port = match named.port {
            "" => first().and_then(|port| u16::try_from(port).ok()),
            port => Some(port.parse().map_err(|_| {
                Status::service_unavailable(format!(
                    "error trying to reach service: dial tcp: lookup tcp/{port}: unknown port"
                ))
            })?),
        };
        let address = match pod.at("status").items("podIPs").first() {
            Some(first) => first.text("ip"),
            None => pod.at("status").text("podIP"),
        };
        Ok(self.elsewhere(named, literal(address)?, port))
    }

    // upstream: pkg/registry/core/service/storage/storage.go ResourceLocation
    fn service_location(
        &self,
        ctx: &RequestContext,
        named: &ProxyTarget<'_>,
    ) -> Result<ProxyLocation, Status> {
        let namespace = &ctx.target.namespace;
        let quoted = go::quote(named.name);
        let mut port = named.port.to_owned();
        if let Ok(number) = named.port.parse::<i64>() {
            let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
            let service = object(&resource, namespace, named.name)?;
            let found = service
                .at("spec")
                .items("ports")
                .iter()
                .find(|found| found.int("port") == Some(number));
            let found = found.ok_or_else(|| {
                Status::service_unavailable(format!("no service port {number} found for service {quoted}"))
            })?;
            found.text("name").clone_into(&mut port);
        }
        // The last simulated node that an endpoint is on.
        let simulated = RefCell::new(None);
        let ready = endpoints(&self.caches, namespace, named.name, &port, |endpoint| {
            let Some(pod) = self.endpoint_pod(endpoint, namespace) else {
                return false;
            };
            let node = pod.at("spec").text("nodeName");
            let is_simulated = self.nodes.is_simulated(node);
            if is_simulated {
                simulated.replace(Some(node.to_owned()));
            }
            !is_simulated
        });
        if let (Some(node), true) = (simulated.take(), ready.is_empty()) {
            return Err(simulated_node(&node));
        }
        if ready.is_empty() {
            return Err(Status::service_unavailable(format!(
                "no endpoints available for service {quoted}"
            )));
        }
        let chosen = random_number() as usize % ready.len();
        let (host, port) = ready
            .into_iter()
            .nth(chosen)
            .expect("the position is within the list");
        Ok(self.elsewhere(named, literal(&host)?, Some(port)))
    }

    /// The pod behind an endpoint: authors of endpoints must not reach everything that the server can reach.
    fn endpoint_pod(&self, endpoint: &Value, namespace: &str) -> Option<Value> {
        let target = endpoint.at("targetRef");
        let kind = builtin().kind("", "v1", "Pod").expect("the kind is built in");
        let pods = Resource::of(kind, &self.caches);
        if target.text("namespace") != namespace {
            return None;
        }
        let pod = object(&pods, namespace, target.text("name")).ok()?;
        let wanted = parse_ip_sloppy(endpoint.texts("addresses").next()?)?;
        let mut addresses = pod.at("status").items("podIPs").iter();
        let has_address = addresses.any(|address| parse_ip_sloppy(address.text("ip")) == Some(wanted));
        has_address.then_some(pod)
    }

    /// A node's own API, or another port of the same machine.
    // upstream: pkg/registry/core/node/strategy.go ResourceLocation
    fn own_location(&self, named: &ProxyTarget<'_>) -> Result<ProxyLocation, Status> {
        let reached = self.nodes.find(named.name)?;
        if named.port.is_empty() || named.port == reached.port.to_string() {
            if !self.nodes.can_be_called() {
                return Err(unreachable_node(named.name));
            }
            let check = NodeCertificateCheck::Verify;
            return self
                .nodes
                .location(named.name, reached, check, String::new(), String::new());
        }
        let NodeConnectionInfo { host, .. } = reached;
        let port = named
            .port
            .parse()
            .map_err(|_| Status::bad_request(format!("invalid node request {}", go::quote(named.port))))?;
        Ok(self.elsewhere(named, host, Some(port)))
    }

    fn elsewhere(&self, named: &ProxyTarget<'_>, host: String, port: Option<u16>) -> ProxyLocation {
        ProxyLocation {
            tls: named.is_tls.then(|| self.nodes.anybody()),
            host,
            port: port.unwrap_or(if named.is_tls { 443 } else { 80 }),
            path: String::new(),
            query: String::new(),
            dialer: self.nodes.dialer(),
            rule: DialRule::Proxy,
            node: None,
        }
    }
}

// --- ProxyTarget ---

impl<'n> ProxyTarget<'n> {
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/net/port_split.go SplitSchemeNamePort
    fn read(text: &'n str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let is_known = ["", "http", "https"].contains(&scheme);
        (is_known && !name.is_empty()).then_some(ProxyTarget {
            is_tls: scheme == "https",
            name,
            port,
        })
    }
}

/// The status of a failed proxied call.
pub(super) fn failed_call(verb: &str, location: &ProxyLocation, failed: &ProxyError) -> Status {
    match failed {
        ProxyError::NotAllowed(why) => Status::bad_request(why.to_string()),
        failed => Status::unknown(format!("{verb} {}: {failed}", go::quote(&location.url()))),
    }
}

/// The status of a failed upgrade.
pub(super) fn failed_stream(failed: ProxyError) -> Status {
    match failed {
        ProxyError::NotAllowed(why) => Status::bad_request(why.to_string()),
        ProxyError::Dial(why) => Status::unknown(format!("error dialing backend: {why}")),
        ProxyError::Aborted(why) => Status::unknown(why),
    }
}

fn object(resource: &Resource, namespace: &str, name: &str) -> Result<Value, Status> {
    let key = resource.key(namespace, name)?;
    let object = resource.cache.get(&key);
    Ok(object.ok_or_else(|| resource.not_found(name))?.tree())
}

/// An address of a pod, which is never a name. Whether it may be dialled is checked when it is.
fn literal(address: &str) -> Result<String, Status> {
    let ip = parse_ip_sloppy(address).ok_or_else(|| Status::bad_request("address not allowed"))?;
    Ok(ip.to_string())
}

/// The path after `proxy`, as written.
fn rest_of_path<'p>(path: &'p str, kind: &Kind) -> &'p str {
    // /api/v1/namespaces/a/pods/b/proxy and /api/v1/nodes/a/proxy
    let parts = if kind.is_namespaced() { 7 } else { 5 };
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    slashes.nth(parts).map_or("", |at| &path[at..])
}

/// Redirects a client to the same path with a trailing slash.
fn moved(passed: &ProxyRequest) -> HttpResponse {
    let mut to = format!("{}/", passed.path);
    if !passed.query.is_empty() {
        to = format!("{to}?{}", passed.query);
    }
    let mut answer = web::text(301, "");
    answer.headers_mut().remove(header::CONTENT_TYPE);
    if let Ok(to) = HeaderValue::from_str(&to) {
        web::set(&mut answer, header::LOCATION, to);
    }
    answer
}

fn authority(location: &ProxyLocation) -> String {
    if location.host.contains(':') {
        format!("[{}]:{}", location.host, location.port)
    } else {
        format!("{}:{}", location.host, location.port)
    }
}

/// Makes a redirection within the same server lead back through here.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go rewriteURL, RoundTrip
fn rewrite(answer: &mut HttpResponse, prefix: &str, hosts: &[String]) {
    let Some(to) = answer
        .headers()
        .get(header::LOCATION)
        .and_then(|to| to.to_str().ok())
    else {
        return;
    };
    let path = match to.split_once("://") {
        None => to,
        Some((_, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            if !hosts.iter().any(|known| known == host) {
                return;
            }
            path
        }
    };
    if !path.starts_with('/') || path.starts_with("//") {
        return;
    }
    let rewritten = if path.starts_with(prefix) {
        path.to_owned()
    } else {
        format!("{prefix}{path}")
    };
    if let Ok(to) = HeaderValue::from_str(&rewritten) {
        web::set(answer, header::LOCATION, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_scheme_name_and_port() {
        let named = |is_tls, name, port| Some(ProxyTarget { is_tls, name, port });
        for (text, expected) in [
            ("a", named(false, "a", "")),
            ("a:80", named(false, "a", "80")),
            ("https:a:web", named(true, "a", "web")),
            ("http:a:", named(false, "a", "")),
            ("ftp:a:80", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(ProxyTarget::read(text), expected, "{text}");
        }
    }

    #[test]
    fn keeps_path_suffix_verbatim() {
        for (path, kind, rest) in [
            ("/api/v1/namespaces/a/pods/b/proxy", "Pod", ""),
            ("/api/v1/namespaces/a/pods/b/proxy/", "Pod", "/"),
            (
                "/api/v1/namespaces/a/services/b/proxy/x%2Fy/z/",
                "Service",
                "/x%2Fy/z/",
            ),
            ("/api/v1/nodes/a/proxy/stats/summary", "Node", "/stats/summary"),
        ] {
            let kind = builtin().kind("", "v1", kind).unwrap();
            assert_eq!(rest_of_path(path, kind), rest, "{path}");
        }
    }

    #[test]
    fn rejects_host_name_as_pod_ip() {
        for address in ["", "host", "localhost", "2130706433", "0x7f000001"] {
            assert_eq!(literal(address).unwrap_err().message, "address not allowed");
        }
        assert_eq!(literal("10.01.2.3").unwrap(), "10.1.2.3");
        assert_eq!(literal("::ffff:127.0.0.1").unwrap(), "127.0.0.1");
    }

    #[test]
    fn rewrites_redirects() {
        let prefix = "/api/v1/namespaces/a/pods/b/proxy";
        let hosts = ["10.0.0.1:80".to_owned(), "server:6443".to_owned()];
        for (to, expected) in [
            ("/login", "/api/v1/namespaces/a/pods/b/proxy/login"),
            (
                "http://10.0.0.1:80/login",
                "/api/v1/namespaces/a/pods/b/proxy/login",
            ),
            ("login", "login"),
            ("https://example.org/x", "https://example.org/x"),
            (
                "/api/v1/namespaces/a/pods/b/proxy/x",
                "/api/v1/namespaces/a/pods/b/proxy/x",
            ),
        ] {
            let mut answer = web::text(302, "");
            web::set(&mut answer, header::LOCATION, HeaderValue::from_str(to).unwrap());
            rewrite(&mut answer, prefix, &hosts);
            assert_eq!(answer.headers()[header::LOCATION], expected);
        }
    }
}
