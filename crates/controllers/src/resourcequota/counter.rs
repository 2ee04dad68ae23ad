//! Counts what is used in a namespace, by lists of its objects.

use std::{collections::HashMap, sync::Arc};

use k3_api::{
    kinds::pod_amounts::{Totals, add, amounts},
    quantity::{Format, Quantity},
    quota::{DeviceClassIndex, QuotaEvaluator, ScopeSelector, UsageLookup},
    strategy::Tree,
    time::Time,
};
use kube::api::ListParams;
use kubecontroller::Clock;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::status::Counted;
use crate::{
    context::ControllerContext,
    resource::{DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, Resource},
    writer::{ApiWriter, Page},
};

/// How many objects are read at once.
const PAGE: u32 = 500;

/// Counts what is used.
pub(super) struct Counter {
    writer: ApiWriter,
    clock: Clock,
}

/// The objects around a claim of devices.
#[derive(Default)]
struct Around {
    pods: HashMap<String, Value>,
    claims: Vec<Value>,
}

// --- Counter ---

impl Counter {
    pub(super) fn new(context: &ControllerContext) -> Self {
        Counter {
            writer: context.writer.clone(),
            clock: context.clock.clone(),
        }
    }

    /// What is used of a quota. What cannot be counted is left out, and the first reason given.
    pub(super) async fn count(&self, namespace: &str, quota: &Value, kinds: &[Resource]) -> Counted {
        let spec = quota.at("spec");
        let hard = amounts(spec.entries("hard"));
        let selectors = ScopeSelector::of(spec);
        let mut counted = Counted::default();
        let mut unknown = Vec::new();
        let classes = match self.classes(&hard).await {
            Ok(classes) => Arc::new(classes),
            Err(error) => {
                counted.trouble = Some(error);
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
                    counted.trouble.get_or_insert(error);
                }
            }
        }
        // A sum of which a part is missing is worth nothing.
        counted.used.retain(|name, _| !unknown.contains(name));
        counted
    }

    /// What the objects of a kind use that meet all conditions.
    async fn usage(
        &self,
        namespace: &str,
        resource: &Resource,
        meter: &QuotaEvaluator,
        selectors: &[ScopeSelector],
    ) -> kube::Result<Totals> {
        if let QuotaEvaluator::Count(names) = meter {
            // No condition is about objects that are only counted.
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
        let around = self.around(namespace, meter, &objects).await?;
        let mut usage = Totals::new();
        for object in &objects {
            let traits = meter.traits(object);
            if selectors.iter().all(|selector| selector.meets(&traits)) {
                add(&mut usage, &meter.measure(object, now, &around));
            }
        }
        Ok(usage)
    }

    /// How many objects there are of a kind.
    async fn number(&self, namespace: &str, resource: &Resource) -> kube::Result<usize> {
        let mut parameters = ListParams::default().limit(1);
        let mut count = 0;
        loop {
            let page: Page<IgnoredAny> = self
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
            // Not every server counts what is left.
            parameters = parameters.limit(PAGE).continue_token(&page.metadata.next);
        }
    }

    async fn objects(&self, namespace: &str, resource: &Resource) -> kube::Result<Vec<Value>> {
        let mut parameters = ListParams::default().limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page: Page<Value> = self.writer.list_page(resource, namespace, &parameters).await?;
            objects.extend(page.items);
            if page.metadata.next.is_empty() {
                return Ok(objects);
            }
            parameters = parameters.continue_token(&page.metadata.next);
        }
    }

    /// The classes of devices, if limits may be about them.
    async fn classes(&self, hard: &Totals) -> kube::Result<DeviceClassIndex> {
        if !hard.keys().any(|name| DeviceClassIndex::may_track(name)) {
            return Ok(DeviceClassIndex::default());
        }
        Ok(DeviceClassIndex::read(&self.objects("", &DEVICE_CLASSES).await?))
    }

    async fn around(
        &self,
        namespace: &str,
        meter: &QuotaEvaluator,
        claims: &[Value],
    ) -> kube::Result<Around> {
        if !matches!(meter, QuotaEvaluator::Devices(_)) || claims.is_empty() {
            return Ok(Around::default());
        }
        let name = |pod: &Value| pod.at("metadata").text("name").to_owned();
        let pods = self.objects(namespace, &PODS).await?;
        Ok(Around {
            pods: pods.into_iter().map(|pod| (name(&pod), pod)).collect(),
            claims: self.objects(namespace, &RESOURCE_CLAIMS).await?,
        })
    }
}

// --- Around ---

impl UsageLookup for Around {
    fn pod(&self, _: &str, name: &str) -> Option<Value> {
        self.pods.get(name).cloned()
    }

    fn device_claims(&self, _: &str) -> Vec<Value> {
        self.claims.clone()
    }
}
