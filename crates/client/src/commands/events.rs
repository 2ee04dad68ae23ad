//! `k3 events`: lists events.

use clap::Args;
use serde_json::Value;

use crate::{
    age,
    api_resource::with_query,
    connection::ConnectFlags,
    error::ClientError,
    output::OutputFormat,
    session::CommandSession,
    table::{Header, HeaderFlags, Table},
    watch::{ObjectWatch, new_list},
};

/// List events, oldest first
#[derive(Debug, Args)]
pub struct EventsFlags {
    /// List events of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only events of this resource, such as `pod/web`
    #[arg(long = "for", value_name = "TYPE/NAME")]
    about: Option<String>,

    /// Only events of these types: Normal, Warning
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,

    /// After listing the events, watch for more
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    header: HeaderFlags,

    /// Output format: json, yaml, name or jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<OutputFormat>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- EventsFlags ---

impl EventsFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let resource = session
            .discovery
            .lock()
            .await
            .find_one(&session.api, "events")
            .await?;
        let namespace = (!self.all_namespaces).then_some(session.namespace.as_str());
        let collection = resource.collection(namespace);
        let query = [("fieldSelector", self.fields(session).await?)];
        let mut list = session.api.get(&with_query(&collection, &query)).await?;
        let mut events = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        events.retain(|event| self.has_wanted_type(event));
        events.sort_by_cached_key(|event| last_seen(event).unwrap_or_default().to_owned());
        if let Some(output) = self
            .output
            .as_ref()
            .filter(|output| !matches!(output, OutputFormat::Wide))
        {
            let events = events
                .into_iter()
                .map(|event| resource.with_type_meta(event))
                .collect();
            let list = new_list(events);
            return session.show(|screen| output.print(screen, &list, self.header.header()));
        }
        if events.is_empty() && !self.watch {
            match namespace {
                Some(namespace) => eprintln!("No events found in {namespace} namespace."),
                None => eprintln!("No events found."),
            }
            return Ok(());
        }
        let mut table = self.table();
        table.rows = events.iter().map(|event| self.row(event)).collect();
        session.show(|screen| table.print(screen, self.header.header()))?;
        if !self.watch {
            return Ok(());
        }
        let layout = table.layout(None, self.header.header());
        let mut revision = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        loop {
            let mut watch =
                ObjectWatch::start(&session.api, &collection, &query, &revision, crate::api::JSON).await?;
            while let Some(watch_event) = watch.next().await? {
                let event = watch_event.object;
                event["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut revision);
                if watch_event.kind != "DELETED" && self.has_wanted_type(&event) {
                    let rows = [self.row(&event)];
                    session.show(|screen| layout.print(screen, &table.header, &rows, Header::Hidden))?;
                }
            }
        }
    }

    async fn fields(&self, session: &CommandSession) -> Result<Option<String>, ClientError> {
        let Some(about) = &self.about else {
            return Ok(None);
        };
        let info = session.resolve_one(std::slice::from_ref(about)).await?;
        Ok(Some(format!(
            "involvedObject.kind={},involvedObject.name={}",
            info.resource.kind,
            info.name()
        )))
    }

    fn has_wanted_type(&self, event: &Value) -> bool {
        let kind = event["type"].as_str().unwrap_or_default();
        self.types.is_empty()
            || self
                .types
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(kind))
    }

    fn table(&self) -> Table {
        Table::new(if self.all_namespaces {
            &["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        } else {
            &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        })
    }

    fn row(&self, event: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = &event["involvedObject"];
        let mut row = Vec::new();
        row.extend(self.all_namespaces.then(|| text(&event["metadata"]["namespace"])));
        row.extend([
            when(event),
            text(&event["type"]),
            text(&event["reason"]),
            format!("{}/{}", text(&about["kind"]), text(&about["name"])),
            text(&event["message"]).trim().replace('\n', " "),
        ]);
        row
    }
}

/// Returns the time of the last occurrence.
fn last_seen(event: &Value) -> Option<&str> {
    event["series"]["lastObservedTime"]
        .as_str()
        .or_else(|| event["lastTimestamp"].as_str())
        .or_else(|| event["eventTime"].as_str())
        .or_else(|| event["metadata"]["creationTimestamp"].as_str())
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/events/event_printer.go getInterval
/// Formats the age of an event with its count: `5m (x3 over 10m)`.
pub(crate) fn when(event: &Value) -> String {
    let since = |time: Option<&str>| {
        time.and_then(age::seconds)
            .map_or_else(|| "<unknown>".to_owned(), age::age)
    };
    let last = since(last_seen(event));
    let count = event["series"]["count"]
        .as_i64()
        .or_else(|| event["count"].as_i64())
        .unwrap_or(1);
    if count <= 1 {
        return last;
    }
    let first = event["firstTimestamp"]
        .as_str()
        .or_else(|| event["eventTime"].as_str());
    format!("{last} (x{count} over {})", since(first))
}
