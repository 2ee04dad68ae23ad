//! The pods of a resource: a pod itself, or those that a Deployment, Job or Service selects.

use k3_labels::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    api_resource::with_query,
    error::ClientError,
    resource_builder::{FileFlags, ResourceInfo},
    session::CommandSession,
};

/// Formats a selector as a query parameter; empty if it selects no objects.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go FormatLabelSelector
pub(crate) fn selector_text(selector: &Value) -> String {
    let is_label_selector =
        selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let selector = if is_label_selector {
        Selector::deserialize(selector).unwrap_or(Selector::NOTHING)
    } else {
        let labels = selector.as_object().into_iter().flatten();
        Selector::from_labels(labels.filter_map(|(name, value)| Some((name, value.as_str()?))))
    };
    selector.to_string()
}

impl CommandSession {
    /// Returns the pods of `web`, `pod/web` or `deployment/web`.
    pub(crate) async fn pods_of(&self, what: &str) -> Result<Vec<Value>, ClientError> {
        let arguments = if what.contains('/') {
            vec![what.to_owned()]
        } else {
            vec!["pods".to_owned(), what.to_owned()]
        };
        let infos = self.resolve_named(&arguments, &FileFlags::default()).await?;
        let Some(info) = infos.first() else {
            return Err(ClientError::usage("specify a pod"));
        };
        let object = self.api.get(&info.path()).await?;
        if info.resource.kind == "Pod" && info.resource.group.is_empty() {
            return Ok(vec![object]);
        }
        self.selected_pods(info, &object).await
    }

    /// Returns the pods that an object selects.
    async fn selected_pods(&self, info: &ResourceInfo, object: &Value) -> Result<Vec<Value>, ClientError> {
        let selector = selector_text(&object["spec"]["selector"]);
        if selector.is_empty() {
            return Err(ClientError::new(format!("{} selects no pods", info.title())));
        }
        let pods = self.pods(info.namespace.as_deref(), Some(selector), None).await?;
        if pods.is_empty() {
            return Err(ClientError::new(format!("{} has no pods yet", info.title())));
        }
        Ok(pods)
    }

    /// Lists pods, sorted by name.
    pub(crate) async fn pods(
        &self,
        namespace: Option<&str>,
        labels: Option<String>,
        fields: Option<String>,
    ) -> Result<Vec<Value>, ClientError> {
        let resource = self.discovery.lock().await.find_one(&self.api, "pods").await?;
        let query = [("labelSelector", labels), ("fieldSelector", fields)];
        let mut list = self
            .api
            .get(&with_query(&resource.collection(namespace), &query))
            .await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_selectors() {
        assert_eq!(
            selector_text(&json!({"app": "web", "tier": "a"})),
            "app=web,tier=a"
        );
        let full = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "Exists"}]});
        assert_eq!(selector_text(&full), "a in (x,y),app=web,!b,c");
    }
}
