//! podFailurePolicy (KEP-3329) and successPolicy (KEP-3998) of a Job.

use k3_workloads::{ContainerStatus, Pod};

use super::indexes::Indexes;
use crate::objects::{ExitCodes, FailureAction, FailurePolicy, SuccessPolicy};

/// The policy's decision about a failed pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FailurePolicyMatch {
    /// The action of the matching rule; `None` if no rule matches.
    pub action: Option<FailureAction>,
    /// The failure message for action FailJob.
    pub message: Option<String>,
}

// --- FailurePolicyMatch ---

impl FailurePolicyMatch {
    /// Matches a failed pod against a policy.
    // upstream: pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy
    pub(super) fn match_pod(policy: Option<&FailurePolicy>, pod: &Pod) -> Self {
        let rules = policy.map(|policy| &*policy.rules).unwrap_or_default();
        let namespace = &pod.metadata.namespace;
        let name = &pod.metadata.name;
        for (position, rule) in rules.iter().enumerate() {
            let why = if let Some(codes) = &rule.on_exit_codes {
                match_on_exit_codes(pod, codes).map(|(container, code)| {
                    format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
                })
            } else {
                let patterns = rule.on_pod_conditions.iter().flatten();
                let mut conditions = pod.status.conditions.iter().filter(|condition| {
                    let mut patterns = patterns.clone();
                    patterns
                        .any(|pattern| pattern.kind == condition.kind && pattern.status == condition.status)
                });
                let condition = conditions.next();
                condition.map(|condition| format!("Pod {namespace}/{name} has condition {}", condition.kind))
            };
            let (Some(why), true) = (why, rule.action != FailureAction::Unknown) else {
                continue;
            };
            let fails = rule.action == FailureAction::FailJob;
            return FailurePolicyMatch {
                action: Some(rule.action),
                message: fails.then(|| format!("{why} matching FailJob rule at index {position}")),
            };
        }
        FailurePolicyMatch::default()
    }

    /// Whether the failure counts towards the backoff limit.
    pub(super) fn counts(&self) -> bool {
        self.action != Some(FailureAction::Ignore)
    }
}

/// The first container whose exit code matches, and the code.
// upstream: pkg/controller/job/pod_failure_policy.go matchOnExitCodes, isOnExitCodesOperatorMatching
fn match_on_exit_codes<'p>(pod: &'p Pod, codes: &ExitCodes) -> Option<(&'p str, i32)> {
    let status = &pod.status;
    let mut containers = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    containers.find_map(|ContainerStatus { name, state, .. }| {
        let code = state.terminated.as_ref()?.exit_code;
        let listed = codes.values.contains(&code);
        let fits = match &*codes.operator {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        let named = codes.container_name.as_ref().is_none_or(|wanted| wanted == name);
        (code != 0 && named && fits).then_some((&**name, code))
    })
}

/// The message for the first success rule that is met.
// upstream: pkg/controller/job/success_policy.go matchSuccessPolicy, matchSucceededIndexesRule
pub(super) fn match_success_policy(
    policy: Option<&SuccessPolicy>,
    completions: u32,
    succeeded: &Indexes,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let met = policy?.rules.iter().position(|rule| {
        let count = rule.succeeded_count;
        match &rule.succeeded_indexes {
            Some(text) => {
                let wanted = Indexes::parse(text, completions);
                let there = wanted.count_common(succeeded);
                !wanted.is_empty() && (there == wanted.count() || count.is_some_and(|count| there >= count))
            }
            None => count.is_some_and(|count| succeeded.count() >= count),
        }
    });
    met.map(|position| format!("Matched rules at index {position}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_matching_failure_rule_applies() {
        let policy: FailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [5]}},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5, 42]}},
            {"action": "Count", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1, 2]}},
            {"action": "FailJob", "onPodConditions": [{"type": "Config", "status": "False"}]},
        ]}))
        .unwrap();
        let container =
            |name: &str, code: i32| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        let fails = |message: &str| (Some(FailureAction::FailJob), Some(message.to_owned()));
        for (status, (action, message)) in [
            (json!({}), (None, None)),
            (
                json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}], "containerStatuses": [container("main", 42)]}),
                (Some(FailureAction::Ignore), None),
            ),
            (
                json!({"conditions": [{"type": "DisruptionTarget", "status": "False"}], "containerStatuses": [container("main", 1)]}),
                (None, None),
            ),
            (
                json!({"containerStatuses": [container("main", 5)]}),
                (Some(FailureAction::FailIndex), None),
            ),
            (
                json!({"containerStatuses": [container("main", 0), container("side", 5)]}),
                fails(
                    "Container side for pod shop/p failed with exit code 5 matching FailJob rule at index 2",
                ),
            ),
            (
                json!({"containerStatuses": [{"name": "main", "state": {}}], "initContainerStatuses": [container("init", 42)]}),
                fails(
                    "Container init for pod shop/p failed with exit code 42 matching FailJob rule at index 2",
                ),
            ),
            (
                json!({"containerStatuses": [container("main", 7)]}),
                (Some(FailureAction::Count), None),
            ),
            (json!({"containerStatuses": [container("main", 0)]}), (None, None)),
            (
                json!({"conditions": [{"type": "Config", "status": "False"}]}),
                fails("Pod shop/p has condition Config matching FailJob rule at index 4"),
            ),
        ] {
            let pod = json!({"metadata": {"namespace": "shop", "name": "p"}, "status": status});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(
                FailurePolicyMatch::match_pod(Some(&policy), &pod),
                FailurePolicyMatch { action, message }
            );
        }
        assert!(FailurePolicyMatch::match_pod(None, &Pod::default()).counts());
    }

    #[test]
    fn matches_success_rules() {
        for (rule, succeeded, met) in [
            (json!({"succeededIndexes": "0-2"}), "0,1", false),
            (json!({"succeededIndexes": "0-2"}), "0-2,5", true),
            (
                json!({"succeededIndexes": "0-2", "succeededCount": 2}),
                "0,2",
                true,
            ),
            (
                json!({"succeededIndexes": "0-2", "succeededCount": 2}),
                "0,5-9",
                false,
            ),
            (json!({"succeededCount": 2}), "7", false),
            (json!({"succeededCount": 2}), "7,9", true),
            (json!({"succeededIndexes": "x"}), "7,9", false),
            (json!({"succeededCount": 0}), "", false),
        ] {
            let policy = json!({"rules": [{"succeededCount": 100}, rule]});
            let policy: SuccessPolicy = serde_json::from_value(policy).unwrap();
            let enough = match_success_policy(Some(&policy), 10, &Indexes::parse(succeeded, 10));
            let expected = met.then(|| "Matched rules at index 1".to_owned());
            assert_eq!(enough, expected, "{policy:?} {succeeded}");
        }
    }
}
