//! `k3 logs`: what containers print.

use std::{io::Write, time::Duration};

use clap::Args;
use futures_util::future::try_join_all;
use serde_json::Value;

use crate::{
    age::duration_argument,
    connection::ConnectFlags,
    failed::Failed,
    resource::{escape, with_query},
    session::Session,
};

/// So many logs are followed at once, unless it is said otherwise.
const FOLLOWED: usize = 5;

/// Print what containers print
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct LogsFlags {
    /// Pod, or what has pods: `web-1`, `deployment/web`, `job/once`
    #[arg(value_name = "POD|TYPE/NAME", required_unless_present = "selector")]
    what: Option<String>,

    /// Container [default: the first, or the one that the pod's annotation names]
    #[arg(value_name = "CONTAINER", conflicts_with = "container")]
    second: Option<String>,

    /// Pods with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "what")]
    selector: Option<String>,

    /// Container [default: the first, or the one that the pod's annotation names]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// All containers of the pods
    #[arg(long, conflicts_with_all = ["container", "second"])]
    all_containers: bool,

    /// All pods of a Deployment or its like, not only one
    #[arg(long)]
    all_pods: bool,

    /// Go on, and print what comes
    #[arg(short, long)]
    follow: bool,

    /// What the container before this one printed
    #[arg(short, long)]
    previous: bool,

    /// Only so many lines from the end [default: all; 10 with -l]
    #[arg(long, value_name = "LINES", allow_hyphen_values = true)]
    tail: Option<i64>,

    /// Only what is not older than this
    #[arg(long, value_name = "DURATION", value_parser = duration_argument, conflicts_with = "since_time")]
    since: Option<Duration>,

    /// Only what came after this time, such as 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME")]
    since_time: Option<String>,

    /// Only so many bytes
    #[arg(long, value_name = "BYTES")]
    limit_bytes: Option<u64>,

    /// Begin each line with its time
    #[arg(long)]
    timestamps: bool,

    /// Begin each line with its pod and container
    #[arg(long)]
    prefix: bool,

    /// Follow so many logs at once
    #[arg(long, value_name = "COUNT", default_value_t = FOLLOWED)]
    max_log_requests: usize,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// A log.
struct Source {
    namespace: String,
    pod: String,
    container: String,
}

// --- LogsFlags ---

impl LogsFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let sources = self.sources(session).await?;
        if !self.follow {
            for source in &sources {
                self.print(session, source).await?;
            }
            return Ok(());
        }
        if sources.len() > self.max_log_requests {
            return Err(Failed::new(format!(
                "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests to \
                 increase the limit",
                sources.len(),
                self.max_log_requests
            )));
        }
        try_join_all(sources.iter().map(|source| self.print(session, source))).await?;
        Ok(())
    }

    async fn sources(&self, session: &Session) -> Result<Vec<Source>, Failed> {
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
            // The one most likely to have something to say.
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

    fn sources_of(&self, pod: &Value) -> Result<Vec<Source>, Failed> {
        let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
        let source = |container: String| Source {
            namespace: text("namespace"),
            pod: text("name"),
            container,
        };
        if self.all_containers {
            let all = names(pod, "initContainers").chain(names(pod, "containers"));
            return Ok(all.map(source).collect());
        }
        let wanted = self.container.as_deref().or(self.second.as_deref());
        Ok(vec![source(container(pod, wanted)?)])
    }

    async fn print(&self, session: &Session, source: &Source) -> Result<(), Failed> {
        let yes = |is_so: bool| is_so.then(|| "true".to_owned());
        let tail = self
            .tail
            .or(self.selector.as_ref().map(|_| 10))
            .filter(|tail| *tail >= 0);
        let query = [
            ("container", Some(source.container.clone())),
            ("follow", yes(self.follow)),
            ("previous", yes(self.previous)),
            ("timestamps", yes(self.timestamps)),
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
        if !self.prefix {
            while let Some(piece) = stream.piece().await? {
                session.show(|screen| screen.write_all(&piece))?;
            }
            return Ok(());
        }
        while let Some(line) = stream.line().await? {
            session.show(|screen| {
                write!(screen, "[pod/{}/{}] ", source.pod, source.container)?;
                screen.write_all(&line)?;
                screen.write_all(b"\n")
            })?;
        }
        Ok(())
    }
}

fn names(pod: &Value, field: &str) -> impl Iterator<Item = String> {
    let containers = pod["spec"][field].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str().map(str::to_owned))
}

/// The container that is meant: the wanted one, the one that the pod names, or the first, which is then said.
pub(crate) fn container(pod: &Value, wanted: Option<&str>) -> Result<String, Failed> {
    let all: Vec<String> = names(pod, "containers")
        .chain(names(pod, "initContainers"))
        .chain(names(pod, "ephemeralContainers"))
        .collect();
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(wanted) = wanted {
        return match all.iter().find(|container| *container == wanted) {
            Some(found) => Ok(found.clone()),
            None => Err(Failed::new(format!(
                "container {wanted} is not valid for pod {name}"
            ))),
        };
    }
    let chosen = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    if let Some(chosen) = chosen.filter(|chosen| all.iter().any(|container| container == chosen)) {
        return Ok(chosen.to_owned());
    }
    let first = all
        .first()
        .cloned()
        .ok_or_else(|| Failed::new(format!("pod {name} has no containers")))?;
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
    fn the_container_is_the_wanted_the_named_or_the_first() {
        let mut pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(container(&pod, None).unwrap(), "a");
        assert_eq!(container(&pod, Some("b")).unwrap(), "b");
        let failed = container(&pod, Some("c")).unwrap_err().to_string();
        assert_eq!(failed, "error: container c is not valid for pod web");
        pod["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/default-container": "b"});
        assert_eq!(container(&pod, None).unwrap(), "b");
    }
}
