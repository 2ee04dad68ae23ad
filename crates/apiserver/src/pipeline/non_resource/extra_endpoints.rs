//! Extra endpoints that other parts of the process add: metrics, documents, and settings.

use std::{fmt, str::Utf8Error, sync::Arc};

use futures_util::future::BoxFuture;
use k3_api::strategy::User;
use parking_lot::RwLock;
use serde_json::Value;

type MetricsFn = Arc<dyn Fn() -> String + Send + Sync>;
type DocumentProvider = Arc<dyn Fn() -> BoxFuture<'static, Value> + Send + Sync>;

type SettingSetter = dyn Fn(&str) -> Result<String, SettingError> + Send + Sync;

/// Why a setting was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    /// The value is not text.
    #[error("it is not UTF-8")]
    NotUtf8(#[from] Utf8Error),
    /// The part of the process that the setting is of refuses the value, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// A setting of the process.
#[derive(Clone)]
pub(crate) struct ProcessSetting {
    /// What it is now.
    pub(crate) get: Arc<dyn Fn() -> String + Send + Sync>,
    /// Changes it; returns a message, or an error.
    pub(crate) set: Arc<SettingSetter>,
    /// Whether a role that grants the path is not enough.
    pub(crate) only_masters: bool,
}

// --- SettingError ---

impl SettingError {
    pub(crate) fn refused(why: impl fmt::Display) -> Self {
        SettingError::Refused(why.to_string())
    }
}

// --- ProcessSetting ---

impl ProcessSetting {
    /// Whether a user whom roles grant the path may use it.
    pub(super) fn is_open_to(&self, user: &User) -> bool {
        !self.only_masters || user.groups.iter().any(|group| group == MASTERS)
    }
}

const MASTERS: &str = "system:masters";

/// The extra endpoints, evaluated on request.
#[derive(Default)]
pub(crate) struct ExtraEndpoints {
    table: RwLock<EndpointTable>,
}

#[derive(Default)]
struct EndpointTable {
    metrics: Vec<MetricsFn>,
    documents: Vec<(&'static str, DocumentProvider)>,
    settings: Vec<(&'static str, ProcessSetting)>,
}

// --- ExtraEndpoints ---

impl ExtraEndpoints {
    pub(crate) fn add_metrics(&self, metrics: impl Fn() -> String + Send + Sync + 'static) {
        let mut table = self.table.write();
        table.metrics.push(Arc::new(metrics));
    }

    pub(crate) fn add_document(
        &self,
        path: &'static str,
        document: impl Fn() -> BoxFuture<'static, Value> + Send + Sync + 'static,
    ) {
        let mut table = self.table.write();
        table.documents.push((path, Arc::new(document)));
    }

    pub(crate) fn add_setting(&self, path: &'static str, setting: ProcessSetting) {
        let mut table = self.table.write();
        table.settings.push((path, setting));
    }

    /// The setting at a path, if one was added.
    pub(super) fn setting(&self, path: &str) -> Option<ProcessSetting> {
        let table = self.table.read();
        let found = table.settings.iter().find(|(known, _)| *known == path);
        found.map(|(_, setting)| setting.clone())
    }

    /// Metrics, with the extra ones.
    pub(super) fn metrics(&self, mut text: String) -> String {
        let metrics = self.table.read().metrics.clone();
        for metrics in metrics {
            text.push_str(&metrics());
        }
        text
    }

    /// The document at a path, if one was added.
    pub(super) fn document(&self, path: &str) -> Option<BoxFuture<'static, Value>> {
        let table = self.table.read();
        let (_, document) = table.documents.iter().find(|(known, _)| *known == path)?;
        let document = Arc::clone(document);
        drop(table);
        Some(document())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn endpoints_are_evaluated_on_request() {
        let extra_endpoints = ExtraEndpoints::default();
        assert_eq!(extra_endpoints.metrics("a 1\n".to_owned()), "a 1\n");
        assert!(extra_endpoints.document("/debug/parts").is_none());
        extra_endpoints.add_metrics(|| "b 2\n".to_owned());
        extra_endpoints.add_document("/debug/parts", || Box::pin(async { json!(["c"]) }));
        assert_eq!(extra_endpoints.metrics("a 1\n".to_owned()), "a 1\nb 2\n");
        assert_eq!(
            extra_endpoints.document("/debug/parts").unwrap().await,
            json!(["c"])
        );
        assert!(extra_endpoints.document("/debug").is_none());
    }
}
