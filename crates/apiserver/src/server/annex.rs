//! What other parts of the process add to what the server says of itself: figures, documents, and settings that can be changed.

use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use k3_api::strategy::User;
use serde_json::Value;

type Figures = Arc<dyn Fn() -> String + Send + Sync>;
type Document = Arc<dyn Fn() -> BoxFuture<'static, Value> + Send + Sync>;

type Change = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// A setting of the process.
#[derive(Clone)]
pub(super) struct Setting {
    /// What it is now.
    pub(super) get: Arc<dyn Fn() -> String + Send + Sync>,
    /// Changes it, and says what was done; or why not.
    pub(super) set: Arc<Change>,
    /// Whether a role that grants the path is not enough.
    pub(super) only_masters: bool,
}

// --- Setting ---

impl Setting {
    /// Whether a user whom roles grant the path may use it.
    pub(super) fn is_open_to(&self, user: &User) -> bool {
        !self.only_masters || user.groups.iter().any(|group| group == MASTERS)
    }
}

const MASTERS: &str = "system:masters";

/// What was added. It is asked for when somebody looks.
#[derive(Default)]
pub(super) struct Annex {
    added: RwLock<Added>,
}

#[derive(Default)]
struct Added {
    figures: Vec<Figures>,
    documents: Vec<(&'static str, Document)>,
    settings: Vec<(&'static str, Setting)>,
}

// --- Annex ---

impl Annex {
    pub(super) fn add_figures(&self, figures: impl Fn() -> String + Send + Sync + 'static) {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        added.figures.push(Arc::new(figures));
    }

    pub(super) fn add_document(
        &self,
        path: &'static str,
        document: impl Fn() -> BoxFuture<'static, Value> + Send + Sync + 'static,
    ) {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        added.documents.push((path, Arc::new(document)));
    }

    pub(super) fn add_setting(&self, path: &'static str, setting: Setting) {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        added.settings.push((path, setting));
    }

    /// The setting at a path, if one was added.
    pub(super) fn setting(&self, path: &str) -> Option<Setting> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let found = added.settings.iter().find(|(known, _)| *known == path);
        found.map(|(_, setting)| setting.clone())
    }

    /// Figures, with those that were added.
    pub(super) fn figures(&self, mut text: String) -> String {
        let figures = self
            .added
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .figures
            .clone();
        for figures in figures {
            text.push_str(&figures());
        }
        text
    }

    /// The document at a path, if one was added.
    pub(super) fn document(&self, path: &str) -> Option<BoxFuture<'static, Value>> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let (_, document) = added.documents.iter().find(|(known, _)| *known == path)?;
        let document = Arc::clone(document);
        drop(added);
        Some(document())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_is_added_is_asked_for_when_somebody_looks() {
        let annex = Annex::default();
        assert_eq!(annex.figures("a 1\n".to_owned()), "a 1\n");
        assert!(annex.document("/debug/parts").is_none());
        annex.add_figures(|| "b 2\n".to_owned());
        annex.add_document("/debug/parts", || Box::pin(async { json!(["c"]) }));
        assert_eq!(annex.figures("a 1\n".to_owned()), "a 1\nb 2\n");
        assert_eq!(annex.document("/debug/parts").unwrap().await, json!(["c"]));
        assert!(annex.document("/debug").is_none());
    }
}
