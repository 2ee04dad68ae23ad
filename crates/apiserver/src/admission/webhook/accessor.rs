//! One webhook of a configuration, compiled (`WebhookAccessor`).

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use k3_api::{
    admission::{OptionalVariableDeclarations, environment},
    strategy::Tree,
};
use serde_json::{Value, json};

use super::super::{
    configuration_cache::ResourceIndex, expression::MatchConditions, failure_policy::FailurePolicy,
    matching::MatchCriteria, reinvocation::ReinvocationPolicy,
};
use crate::outgoing::{CallError, Destination};

/// One webhook.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/accessors.go GetCompiledMatcher
#[derive(Debug)]
pub(super) struct WebhookAccessor {
    /// Unique: webhooks of one configuration may share a name.
    pub id: String,
    pub configuration: String,
    pub name: String,
    pub client: Result<Destination, CallError>,
    pub criteria: MatchCriteria,
    /// The `matchConditions`, and what was compiled of them when they were first needed.
    sources: Value,
    conditions: OnceLock<MatchConditions>,
    /// Whether `failurePolicy` is `Ignore`.
    pub failure_policy: FailurePolicy,
    pub timeout: Option<Duration>,
    /// Whether it can be asked about what is not to be stored.
    pub side_effects: SideEffects,
    /// The first form of reviews that both sides know.
    pub review: Option<ReviewVersion>,
    /// `reinvocationPolicy: IfNeeded`: invoke the webhook again if the object was changed after its first invocation.
    pub reinvocation: ReinvocationPolicy,
}

/// What a webhook does besides answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// Nothing, or nothing on a dry run.
    Harmless,
    /// `Some` or `Unknown`.
    Some,
    /// The configuration does not say.
    Unsaid,
}

/// The version of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// All webhooks of a sort, in order: by the name of their configuration, then as that has them.
#[derive(Debug)]
pub(super) struct WebhookList {
    all: Vec<Arc<WebhookAccessor>>,
    index: ResourceIndex,
}

// --- WebhookAccessor ---

impl WebhookAccessor {
    /// The webhooks of a configuration.
    pub(super) fn read_all(configuration: &Value) -> Vec<Arc<WebhookAccessor>> {
        let of = configuration.at("metadata").text("name");
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let hooks = configuration.items("webhooks").iter();
        hooks
            .map(|hook| {
                let count = seen.entry(hook.text("name")).or_default();
                let id = format!("{of}/{}/{count}", hook.text("name"));
                *count += 1;
                Arc::new(WebhookAccessor::read(hook, of, id))
            })
            .collect()
    }

    fn read(hook: &Value, configuration: &str, id: String) -> Self {
        WebhookAccessor {
            id,
            configuration: configuration.to_owned(),
            name: hook.text("name").to_owned(),
            client: Destination::read(hook.at("clientConfig")),
            criteria: MatchCriteria::of_webhook(hook),
            sources: json!({"matchConditions": hook.at("matchConditions")}),
            conditions: OnceLock::new(),
            failure_policy: FailurePolicy::read(hook),
            timeout: hook
                .int("timeoutSeconds")
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
            side_effects: match hook.text("sideEffects") {
                "None" | "NoneOnDryRun" => SideEffects::Harmless,
                "" => SideEffects::Unsaid,
                _ => SideEffects::Some,
            },
            review: hook
                .texts("admissionReviewVersions")
                .find_map(|version| match version {
                    "v1" => Some(ReviewVersion::V1),
                    "v1beta1" => Some(ReviewVersion::V1Beta1),
                    _ => None,
                }),
            reinvocation: ReinvocationPolicy::read(hook),
        }
    }
}

impl WebhookAccessor {
    /// The conditions under which it is asked at all; `None` if there are none.
    pub(super) fn conditions(&self) -> Option<&MatchConditions> {
        if self.sources.items("matchConditions").is_empty() {
            return None;
        }
        Some(self.conditions.get_or_init(|| {
            let environment = environment(OptionalVariableDeclarations {
                params: false,
                authorizer: true,
            });
            MatchConditions::compile(&self.sources, &environment, self.failure_policy)
        }))
    }
}

// --- ReviewVersion ---

impl ReviewVersion {
    /// The `apiVersion` of such a review.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

// --- WebhookList ---

impl WebhookList {
    /// The webhooks of all configurations, ordered by name.
    pub(super) fn new(configurations: &[Arc<Vec<Arc<WebhookAccessor>>>]) -> Self {
        let all: Vec<Arc<WebhookAccessor>> = configurations
            .iter()
            .flat_map(|hooks| hooks.iter().cloned())
            .collect();
        let index = ResourceIndex::new(all.iter().map(|hook| hook.criteria.resources()));
        WebhookList { all, index }
    }

    /// Those that may be about a resource, each with its position among all.
    pub(super) fn of(&self, resource: &str) -> impl Iterator<Item = (usize, &Arc<WebhookAccessor>)> {
        let positions = self.index.of(resource).iter();
        positions.map(|position| (*position, &self.all[*position]))
    }

    /// Whether none can be about a resource.
    pub(super) fn has_none_of(&self, resource: &str) -> bool {
        self.index.of(resource).is_empty()
    }
}
