//! Computes the usage of a namespace from lists of its objects.

use std::{collections::HashMap, sync::Arc};

use k3_api::{
    kinds::pod_amounts::{Totals, add, amounts},
    quantity::{Format, Quantity},
    quota::{DeviceClassIndex, QuotaEvaluator, ScopeSelector, UsageLookup},
    strategy::Tree,
    time::Time,
};
use kube::api::ListParams;
use kubecontroller::{
    Clock,
    resource::Resource,
    writer::{ApiWriter, ListPage},
};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::status::CountResult;
use crate::{
    context::ControllerContext,
    resource::{DEVICE_CLASSES, PODS, RESOURCE_CLAIMS},
};

/// Page size of lists.
const PAGE: u32 = 500;

pub(super) struct UsageCounter {
    writer: ApiWriter,
    clock: Clock,
}

/// Objects related to a ResourceClaim.
#[derive(Default)]
struct ClaimSurroundings {
    pods: HashMap<String, Value>,
    claims: Vec<Value>,
}

// --- UsageCounter ---

impl UsageCounter {
    pub(super) fn new(context: &ControllerContext) -> Self {
        UsageCounter {
            writer: context.writer.clone(),
            clock: context.clock.clone(),
        }
    }

    /// The usage for a quota. Resources that cannot be counted are omitted, with the first error.
    // upstream: pkg/controller/resourcequota/resource_quota_controller.go syncResourceQuota
    pub(super) async fn count(&self, namespace: &str, quota: &Value, kinds: &[Resource]) -> CountResult {
        let spec = quota.at("spec");
        let hard = amounts(spec.entries("hard"));
        let selectors = ScopeSelector::of(spec);
        let mut counted = CountResult::default();
        let mut unknown = Vec::new();
        let classes = match self.classes(&hard).await {
            Ok(classes) => Arc::new(classes),
            Err(error) => {
                counted.error = Some(error);
                return counted;
            }
        };
        for resource in kinds {
            let meter = QuotaEvaluator::of(&resource.group, &resource.plural, || Arc::clone(&classes));
            let tracked: Vec<&String> = hard.keys().filter(|name| meter.tracks(name)).collect();
            if tracked.is_empty() {
                continue;
            }
            match self.usage(namespace, resource, &meter, &selectors).await {
                Ok(mut usage) => {
                    usage.retain(|name, _| hard.contains_key(name));
                    for name in tracked {
                        let none = || Quantity::new(0, Format::DecimalSi);
                        usage.entry(name.clone()).or_insert_with(none);
                    }
                    add(&mut counted.used, &usage);
                }
                Err(error) => {
                    unknown.extend(tracked.into_iter().cloned());
                    counted.error.get_or_insert(error);
                }
            }
        }
        // A partial sum would be wrong.
        counted.used.retain(|name, _| !unknown.contains(name));
        counted
    }

    /// The usage of objects of a resource that match all scopes.
    // upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go CalculateUsageStats
    async fn usage(
        &self,
        namespace: &str,
        resource: &Resource,
        meter: &QuotaEvaluator,
        selectors: &[ScopeSelector],
    ) -> kube::Result<Totals> {
        if let QuotaEvaluator::Count(names) = meter {
            // No scope applies to objects that are only counted.
            let count = match selectors {
                [] => self.number(namespace, resource).await?,
                _ => 0,
            };
            let count = Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
            return Ok(names.iter().map(|name| (name.clone(), count.clone())).collect());
        }
        let now = self.clock.now();
        let now = Time::from_unix(now.as_second(), now.subsec_nanosecond().unsigned_abs());
        let objects = self.objects(namespace, resource).await?;
        let around = self.claim_surroundings(namespace, meter, &objects).await?;
        let mut usage = Totals::new();
        for object in &objects {
            let traits = meter.traits(object);
            if selectors.iter().all(|selector| selector.meets(&traits)) {
                add(&mut usage, &meter.measure(object, now, &around));
            }
        }
        Ok(usage)
    }

    /// Number of objects of a resource.
    async fn number(&self, namespace: &str, resource: &Resource) -> kube::Result<usize> {
        let mut parameters = ListParams::default().limit(1);
        let mut count = 0;
        loop {
            let page: ListPage<IgnoredAny> = self
                .writer
                .list_metadata_page(resource, namespace, &parameters)
                .await?;
            count += page.items.len();
            if page.metadata.next.is_empty() {
                return Ok(count);
            }
            if let Some(left) = page.metadata.remaining_item_count {
                return Ok(count + left);
            }
            // Not every server sets remainingItemCount.
            parameters = parameters.limit(PAGE).continue_token(&page.metadata.next);
        }
    }

    async fn objects(&self, namespace: &str, resource: &Resource) -> kube::Result<Vec<Value>> {
        let mut parameters = ListParams::default().limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page: ListPage<Value> = self.writer.list_page(resource, namespace, &parameters).await?;
            objects.extend(page.items);
            if page.metadata.next.is_empty() {
                return Ok(objects);
            }
            parameters = parameters.continue_token(&page.metadata.next);
        }
    }

    /// Device classes, if a quota may limit them.
    async fn classes(&self, hard: &Totals) -> kube::Result<DeviceClassIndex> {
        if !hard.keys().any(|name| DeviceClassIndex::may_track(name)) {
            return Ok(DeviceClassIndex::default());
        }
        Ok(DeviceClassIndex::read(&self.objects("", &DEVICE_CLASSES).await?))
    }

    async fn claim_surroundings(
        &self,
        namespace: &str,
        meter: &QuotaEvaluator,
        claims: &[Value],
    ) -> kube::Result<ClaimSurroundings> {
        if !matches!(meter, QuotaEvaluator::Devices(_)) || claims.is_empty() {
            return Ok(ClaimSurroundings::default());
        }
        let name = |pod: &Value| pod.at("metadata").text("name").to_owned();
        let pods = self.objects(namespace, &PODS).await?;
        Ok(ClaimSurroundings {
            pods: pods.into_iter().map(|pod| (name(&pod), pod)).collect(),
            claims: self.objects(namespace, &RESOURCE_CLAIMS).await?,
        })
    }
}

// --- ClaimSurroundings ---

impl UsageLookup for ClaimSurroundings {
    fn pod(&self, _: &str, name: &str) -> Option<Value> {
        self.pods.get(name).cloned()
    }

    fn device_claims(&self, _: &str) -> Vec<Value> {
        self.claims.clone()
    }
}
