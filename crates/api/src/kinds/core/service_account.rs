//! Who a pod is.

use serde_json::{Value, json};

use crate::{
    strategy::{Column, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ServiceAccount;

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const COLUMNS: &[Column] = &[Column::name(), Column::age()];

// upstream: pkg/registry/core/serviceaccount/strategy.go strategy
impl RestStrategy for ServiceAccount {
    // upstream: pkg/registry/core/serviceaccount/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        keep_names_of_secrets(object);
    }

    // upstream: pkg/registry/core/serviceaccount/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, _: &Value, _: &StrategyContext<'_>) {
        keep_names_of_secrets(new);
    }

    // upstream: pkg/registry/core/serviceaccount/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let marked = |object: &Value| object.at_path("metadata.annotations").has(MOUNTABLE_SECRETS);
        if !marked(new) || old.is_some_and(marked) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate \
             access to mounted secrets"
        )]
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printServiceAccount
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [])
    }
}

/// The secrets are of the same namespace and kind: their names tell all.
fn keep_names_of_secrets(account: &mut Value) {
    for secret in account.items_mut("secrets") {
        *secret = match secret.remove("name") {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_secrets_only_the_names_are_kept() {
        let mut account =
            json!({"secrets": [{"kind": "Secret", "name": "a", "namespace": "other"}, {"uid": "1"}]});
        keep_names_of_secrets(&mut account);
        assert_eq!(account, json!({"secrets": [{"name": "a"}, {}]}));
    }

    #[test]
    fn a_warning_is_given_once() {
        let marked = json!({"metadata": {"annotations": {MOUNTABLE_SECRETS: "true"}}});
        assert_eq!(ServiceAccount.warnings(&marked, None).len(), 1);
        assert_eq!(ServiceAccount.warnings(&marked, Some(&json!({}))).len(), 1);
        assert!(ServiceAccount.warnings(&marked, Some(&marked)).is_empty());
    }
}
