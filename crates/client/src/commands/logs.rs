//! `k3 logs`: prints container logs.

use std::{io::Write, time::Duration};

use clap::Args;
use futures_util::future::try_join_all;
use serde_json::Value;

use crate::{
    age::duration_argument,
    api_resource::{escape, with_query},
    connection::ConnectFlags,
    error::ClientError,
    session::CommandSession,
};

/// Default of `--max-log-requests`.
const MAX_LOG_REQUESTS: usize = 5;

/// Print the logs of containers
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct LogsFlags {
    /// Pod, or a resource that selects pods: `web-1`, `deployment/web`, `job/once`
    #[arg(value_name = "POD|TYPE/NAME", required_unless_present = "selector")]
    what: Option<String>,

    /// Container name [default: the kubectl.kubernetes.io/default-container annotation, or the first container]
    #[arg(value_name = "CONTAINER", conflicts_with = "container")]
    second: Option<String>,

    /// Label selector for pods
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "what")]
    selector: Option<String>,

    /// Container name [default: the kubectl.kubernetes.io/default-container annotation, or the first container]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// Print the logs of all containers of the pods
    #[arg(long, conflicts_with_all = ["container", "second"])]
    all_containers: bool,

    /// Print the logs of all pods of the resource instead of one
    #[arg(long)]
    all_pods: bool,

    /// Stream the logs
    #[arg(short, long)]
    follow: bool,

    /// Print the logs of the previous instance of the container
    #[arg(short, long)]
    previous: bool,

    /// Lines of recent log to print [default: all; 10 with a selector]
    #[arg(long, value_name = "LINES", allow_hyphen_values = true)]
    tail: Option<i64>,

    /// Only logs newer than this
    #[arg(long, value_name = "DURATION", value_parser = duration_argument, conflicts_with = "since_time")]
    since: Option<Duration>,

    /// Only logs after this time (RFC 3339), such as 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME")]
    since_time: Option<String>,

    /// Maximum bytes of logs to print
    #[arg(long, value_name = "BYTES")]
    limit_bytes: Option<u64>,

    /// Prefix each line with its timestamp
    #[arg(long)]
    timestamps: bool,

    /// Prefix each line with its pod and container
    #[arg(long)]
    prefix: bool,

    /// Maximum number of log streams to follow at once
    #[arg(long, value_name = "COUNT", default_value_t = MAX_LOG_REQUESTS)]
    max_log_requests: usize,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// The container whose log is printed.
struct LogSource {
    namespace: String,
    pod: String,
    container: String,
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/logs/logs.go parallelConsumeRequest, DefaultConsumeRequest
/// What is written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogUnits {
    /// Whatever arrives.
    Chunks,
    /// Whole lines: the logs of several containers would otherwise be mixed within a line.
    Lines,
}

// --- LogsFlags ---

impl LogsFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let sources = self.sources(session).await?;
        if !self.follow {
            for source in &sources {
                self.print(session, source, LogUnits::Chunks).await?;
            }
            return Ok(());
        }
        if sources.len() > self.max_log_requests {
            return Err(ClientError::new(format!(
                "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests to \
                 increase the limit",
                sources.len(),
                self.max_log_requests
            )));
        }
        let units = match sources.as_slice() {
            [_] => LogUnits::Chunks,
            _ => LogUnits::Lines,
        };
        try_join_all(sources.iter().map(|source| self.print(session, source, units))).await?;
        Ok(())
    }

    async fn sources(&self, session: &CommandSession) -> Result<Vec<LogSource>, ClientError> {
        let mut pods = match (&self.what, &self.selector) {
            (Some(what), _) => session.pods_of(what).await?,
            (None, selector) => {
                session
                    .pods(Some(&session.namespace), selector.clone(), None)
                    .await?
            }
        };
        if pods.is_empty() {
            eprintln!("No resources found in {} namespace.", session.namespace);
        }
        if self.what.is_some() && pods.len() > 1 && !self.all_pods {
            // A running pod is the most likely one to have logs.
            pods.sort_by_key(|pod| pod["status"]["phase"] != "Running");
            let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default();
            eprintln!("Found {} pods, using pod/{name}", pods.len());
            pods.truncate(1);
        }
        let mut sources = Vec::new();
        for pod in &pods {
            sources.extend(self.sources_of(pod)?);
        }
        Ok(sources)
    }

    fn sources_of(&self, pod: &Value) -> Result<Vec<LogSource>, ClientError> {
        let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
        let source = |container: String| LogSource {
            namespace: text("namespace"),
            pod: text("name"),
            container,
        };
        if self.all_containers {
            let all = names(pod, "initContainers").chain(names(pod, "containers"));
            return Ok(all.map(source).collect());
        }
        let name = self.container.as_deref().or(self.second.as_deref());
        Ok(vec![source(select_container(pod, name)?)])
    }

    async fn print(
        &self,
        session: &CommandSession,
        source: &LogSource,
        units: LogUnits,
    ) -> Result<(), ClientError> {
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let tail = self
            .tail
            .or(self.selector.as_ref().map(|_| 10))
            .filter(|tail| *tail >= 0);
        let query = [
            ("container", Some(source.container.clone())),
            ("follow", flag(self.follow)),
            ("previous", flag(self.previous)),
            ("timestamps", flag(self.timestamps)),
            ("tailLines", tail.map(|lines| lines.to_string())),
            (
                "sinceSeconds",
                self.since.map(|since| since.as_secs().max(1).to_string()),
            ),
            ("sinceTime", self.since_time.clone()),
            ("limitBytes", self.limit_bytes.map(|bytes| bytes.to_string())),
        ];
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/log",
            escape(&source.namespace),
            escape(&source.pod)
        );
        let mut stream = session.api.stream(&with_query(&path, &query), "*/*").await?;
        if !self.prefix && units == LogUnits::Chunks {
            while let Some(chunk) = stream.chunk().await? {
                session.show(|screen| screen.write_all(&chunk))?;
            }
            return Ok(());
        }
        while let Some(line) = stream.whole_line().await? {
            session.show(|screen| {
                if self.prefix {
                    write!(screen, "[pod/{}/{}] ", source.pod, source.container)?;
                }
                screen.write_all(&line)
            })?;
        }
        Ok(())
    }
}

fn names(pod: &Value, field: &str) -> impl Iterator<Item = String> {
    let containers = pod["spec"][field].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str().map(str::to_owned))
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/podcmd/podcmd.go FindOrDefaultContainerByName
/// Returns the container `requested`, the pod's default container, or the first container.
pub(crate) fn select_container(pod: &Value, requested: Option<&str>) -> Result<String, ClientError> {
    let all: Vec<String> = names(pod, "containers")
        .chain(names(pod, "initContainers"))
        .chain(names(pod, "ephemeralContainers"))
        .collect();
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(requested) = requested {
        return match all.iter().find(|container| *container == requested) {
            Some(found) => Ok(found.clone()),
            None => Err(ClientError::new(format!(
                "container {requested} is not valid for pod {name}"
            ))),
        };
    }
    let default = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    if let Some(default) = default.filter(|default| all.iter().any(|container| container == default)) {
        return Ok(default.to_owned());
    }
    let first = all
        .first()
        .cloned()
        .ok_or_else(|| ClientError::new(format!("pod {name} has no containers")))?;
    if all.len() > 1 {
        eprintln!("Defaulted container {first:?} out of: {}", all.join(", "));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_the_requested_the_default_or_the_first_container() {
        let mut pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(select_container(&pod, None).unwrap(), "a");
        assert_eq!(select_container(&pod, Some("b")).unwrap(), "b");
        let failed = select_container(&pod, Some("c")).unwrap_err().to_string();
        assert_eq!(failed, "error: container c is not valid for pod web");
        pod["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/default-container": "b"});
        assert_eq!(select_container(&pod, None).unwrap(), "b");
    }
}
