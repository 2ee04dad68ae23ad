//! The pods that something stands for: a pod for itself, a Deployment, Job or Service for those it selects.

use serde_json::Value;

use crate::{
    failed::Failed,
    pick::{FileFlags, Pick},
    resource::with_query,
    session::Session,
};

/// A selector of an object as a query has it.
pub(crate) fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_full = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let labels = if is_full {
        &selector["matchLabels"]
    } else {
        selector
    };
    let mut parts: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", text(value)))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values: Vec<String> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        let values = values.join(",");
        parts.push(match text(&expression["operator"]).as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        });
    }
    parts.join(",")
}

impl Session {
    /// The pods of `web`, `pod/web`, `deployment/web` and their like.
    pub(crate) async fn pods_of(&self, what: &str) -> Result<Vec<Value>, Failed> {
        let words = if what.contains('/') {
            vec![what.to_owned()]
        } else {
            vec!["pods".to_owned(), what.to_owned()]
        };
        let picks = self.pick_named(&words, &FileFlags::default()).await?;
        let Some(pick) = picks.first() else {
            return Err(Failed::usage("name a pod"));
        };
        let object = self.api.get(&pick.path()).await?;
        if pick.resource.kind == "Pod" && pick.resource.group.is_empty() {
            return Ok(vec![object]);
        }
        self.selected(pick, &object).await
    }

    /// The pods that an object selects.
    async fn selected(&self, pick: &Pick, object: &Value) -> Result<Vec<Value>, Failed> {
        let selector = selector_text(&object["spec"]["selector"]);
        if selector.is_empty() {
            return Err(Failed::new(format!("{} selects no pods", pick.title())));
        }
        let pods = self.pods(pick.namespace.as_deref(), Some(selector), None).await?;
        if pods.is_empty() {
            return Err(Failed::new(format!("{} has no pods yet", pick.title())));
        }
        Ok(pods)
    }

    /// Pods by selectors, oldest names first.
    pub(crate) async fn pods(
        &self,
        namespace: Option<&str>,
        labels: Option<String>,
        fields: Option<String>,
    ) -> Result<Vec<Value>, Failed> {
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
    fn selectors_are_written_as_queries_have_them() {
        assert_eq!(
            selector_text(&json!({"app": "web", "tier": "a"})),
            "app=web,tier=a"
        );
        let full = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "Exists"}]});
        assert_eq!(selector_text(&full), "app=web,a in (x,y),!b,c");
    }
}
