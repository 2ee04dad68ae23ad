//! What only a node can answer: logs, commands, terminals, ports.

use http::{HeaderValue, StatusCode, header};
use k3_api::{
    field::{Error, Path},
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use super::passed::{failed_call, failed_stream};
use crate::{
    authz::{Action, Decision, Object, What},
    http::{self as web, Answer, Body},
    outgoing::{Location, Passed},
    registry::{Ask, Registry, Resource},
    request::encode,
    server::Verb,
};

/// So much is read of an answer that something went wrong.
const MOST_SAID: usize = 50_000;

// --- Registry ---

impl Registry {
    /// The log of a container.
    pub(super) async fn log(&self, ask: &Ask) -> Result<Answer, Status> {
        check_log_options(ask)?;
        let pod = self.pod(ask).await?;
        let container = container(&pod, ask.query.text("container"))?;
        let node = pod.at("spec").text("nodeName");
        if node.is_empty() {
            // Nothing ran, so nothing was written.
            let mut answer = web::text(200, "");
            *answer.status_mut() = StatusCode::NO_CONTENT;
            *answer.body_mut() = Body::Empty;
            answer.headers_mut().remove(header::CONTENT_TYPE);
            return Ok(answer);
        }
        let path = format!(
            "/containerLogs/{}/{}/{container}",
            ask.target.namespace, ask.target.name
        );
        let skips = ask.query.flag("insecureSkipTLSVerifyBackend").unwrap_or_default();
        let location = self.node_location(node, !skips, path, log_query(ask)?)?;
        let mut answer = match location.get().await {
            Ok(answer) => answer,
            Err(failed) => return Err(failed_call("Get", &location, &failed)),
        };
        if !(200..=206).contains(&answer.status().as_u16()) {
            return Err(failed_log(answer, &ask.target.name).await);
        }
        *answer.status_mut() = StatusCode::OK;
        answer.headers_mut().clear();
        web::set(
            &mut answer,
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain"),
        );
        Ok(answer)
    }

    /// A command in a container, its terminal, or its ports.
    pub(super) async fn stream(&self, ask: &Ask, verb: Verb, passed: Passed) -> Result<Answer, Status> {
        self.admit_connection(ask, "").await?;
        if verb != Verb::Create {
            self.require_create(ask)?;
        }
        let pod = self.pod(ask).await?;
        let part = ask.target.part();
        let mut path = match part {
            "portforward" => format!("/portForward/{}/{}", ask.target.namespace, ask.target.name),
            part => format!("/{part}/{}/{}", ask.target.namespace, ask.target.name),
        };
        if part != "portforward" {
            let container = container(&pod, ask.query.text("container"))?;
            path = format!("{path}/{container}");
        }
        let node = match pod.at("spec").text("nodeName") {
            "" => {
                return Err(Status::bad_request(format!(
                    "pod {} does not have a host assigned",
                    ask.target.name
                )));
            }
            node => node,
        };
        let location = self.node_location(node, true, path, stream_query(ask)?)?;
        if !passed.wants_upgrade() {
            return Err(Status::bad_request("Upgrade request required"));
        }
        location.converse(passed).await.map_err(failed_stream)
    }

    fn node_location(
        &self,
        node: &str,
        verify: bool,
        path: String,
        query: String,
    ) -> Result<Location, Status> {
        if !self.nodes.can_be_called() {
            return Err(crate::outgoing::unreachable_node(node));
        }
        let reached = self.nodes.find(node)?;
        self.nodes.location(node, reached, verify, path, query)
    }

    /// Refuses who may not create: a WebSocket begins with a GET, but it is no less than a POST.
    fn require_create(&self, ask: &Ask) -> Result<(), Status> {
        let target = &ask.target;
        let pod = Object {
            version: &target.kind.version,
            resource: &target.kind.plural,
            subresource: target.part(),
            namespace: &target.namespace,
            name: &target.name,
            ..Object::default()
        };
        let action = Action {
            user: &ask.user,
            verb: "create",
            what: What::Object(pod),
        };
        match self.authorizer.decide(&action) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(reason) => Err(Status::forbidden(
                GroupResource::new("", "pods"),
                &target.name,
                reason,
            )),
        }
    }

    async fn pod(&self, ask: &Ask) -> Result<Value, Status> {
        self.fresh().await?;
        let pods = Resource::of(
            builtin().kind("", "v1", "Pod").expect("the kind is built in"),
            &self.caches,
        );
        let key = pods.key(&ask.target.namespace, &ask.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ask.target.name))?;
        Ok(pod.tree())
    }
}

/// What a node says of a log that it does not show.
async fn failed_log(answer: Answer, name: &str) -> Status {
    let code = answer.status().as_u16();
    let said = web::said(answer, MOST_SAID).await;
    match code {
        500 => Status::internal_error(said),
        400 => Status::bad_request(said),
        code => {
            let mut status = Status::generic(code, &said);
            status.message = format!("{} ( pods/log {name})", status.message);
            if let Some(details) = &mut status.details {
                name.clone_into(&mut details.name);
                "pods/log".clone_into(&mut details.kind);
            }
            status
        }
    }
}

/// The options of a log as a node reads them.
fn log_query(ask: &Ask) -> Result<String, Status> {
    let query = &ask.query;
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag).unwrap_or_default() {
            pairs.push((flag, "true".to_owned()));
        }
    }
    for number in ["sinceSeconds", "tailLines", "limitBytes"] {
        if let Some(value) = query.int(number)? {
            pairs.push((number, value.to_string()));
        }
    }
    if let Some(time) = query.time("sinceTime")? {
        pairs.push(("sinceTime", time.truncated().to_string()));
    }
    Ok(encode(&mut pairs))
}

/// The options of a stream as a node reads them.
fn stream_query(ask: &Ask) -> Result<String, Status> {
    let query = &ask.query;
    let mut pairs: Vec<(&str, String)> = Vec::new();
    match ask.target.part() {
        "portforward" => {
            let ports: Vec<_> = query.ports("ports")?.iter().map(u16::to_string).collect();
            if !ports.is_empty() {
                pairs.push(("port", ports.join(",")));
            }
        }
        part => {
            for (name, flag) in [
                ("input", "stdin"),
                ("output", "stdout"),
                ("error", "stderr"),
                ("tty", "tty"),
            ] {
                if query.flag(flag).unwrap_or_default() {
                    pairs.push((name, "1".to_owned()));
                }
            }
            if part == "exec" {
                pairs.extend(query.all("command").map(|word| ("command", word.to_owned())));
            }
        }
    }
    Ok(encode(&mut pairs))
}

/// Finds the container that is meant, or says which there are.
fn container<'p>(pod: &'p Value, name: &'p str) -> Result<&'p str, Status> {
    let pod_name = pod.at("metadata").text("name");
    let spec = pod.at("spec");
    let names =
        |list: &str| -> Vec<&'p str> { spec.items(list).iter().map(|item| item.text("name")).collect() };
    let main = names("containers");
    let all = [
        names("initContainers"),
        main.clone(),
        names("ephemeralContainers"),
    ]
    .concat();
    match (name, main.as_slice()) {
        ("", [only]) => Ok(only),
        ("", []) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}"
        ))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (name, _) if all.contains(&name) => Ok(name),
        (name, _) => Err(Status::bad_request(format!(
            "container {name} is not valid for pod {pod_name}"
        ))),
    }
}

fn check_log_options(ask: &Ask) -> Result<(), Status> {
    let query = &ask.query;
    let seconds = query.int("sinceSeconds")?;
    query.time("sinceTime")?;
    let (lines, bytes) = (query.int("tailLines")?, query.int("limitBytes")?);
    let mut errors = Vec::new();
    if let Some(lines) = lines.filter(|lines| *lines < 0) {
        errors.push(Error::invalid(
            &Path::new("tailLines"),
            lines,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(bytes) = bytes.filter(|bytes| *bytes < 1) {
        errors.push(Error::invalid(
            &Path::new("limitBytes"),
            bytes,
            "must be greater than 0",
        ));
    }
    if seconds.is_some() && query.has("sinceTime") {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(Error::forbidden(&Path::new(""), detail));
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.push(Error::invalid(
            &Path::new("sinceSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if query.has("stream") {
        errors.push(Error::forbidden(&Path::new("stream"), "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        GroupResource::new("", "PodLogOptions"),
        &ask.target.name,
        &errors,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_meant_or_has_to_be_said() {
        let pod = |main: &[&str], init: &[&str]| {
            let named =
                |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
            json!({"metadata": {"name": "p"}, "spec": {"containers": named(main), "initContainers": named(init)}})
        };
        for (pod, name, expected) in [
            (pod(&["a"], &["i"]), "", Ok("a")),
            (pod(&["a"], &["i"]), "i", Ok("i")),
            (
                pod(&["a", "b"], &["i"]),
                "",
                Err("a container name must be specified for pod p, choose one of: [i a b]"),
            ),
            (pod(&["a"], &[]), "x", Err("container x is not valid for pod p")),
            (
                pod(&[], &[]),
                "",
                Err("a container name must be specified for pod p"),
            ),
        ] {
            let found = container(&pod, name).map_err(|status| status.message);
            assert_eq!(found, expected.map_err(ToOwned::to_owned));
        }
    }
}
