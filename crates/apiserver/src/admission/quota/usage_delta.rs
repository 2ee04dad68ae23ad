//! The change of quota usage by a request.

use k3_api::{
    kinds::pod_amounts::Totals,
    quantity::Quantity,
    quota::{MissingConstraints, QuotaEvaluator, ScopeAttributes, UsageLookup, is_terminating},
};
use k3_storage::Revision;
use serde_json::Value;

use super::quota_state::QuotaState;
use crate::{
    admission::{AdmissionAttributes, Operation, object, resource},
    cache::WatchCaches,
};

/// What a request asks of the quotas of its namespace.
pub(super) struct UsageDelta {
    meter: QuotaEvaluator,
    new: ObjectUsage,
    /// What it uses already.
    old: Option<ObjectUsage>,
    /// What its containers should say.
    missing: MissingConstraints,
    /// A status update reports existing usage: it is charged, and never rejected.
    is_fact: bool,
    /// Whether it is only tried.
    pub dry_run: bool,
}

/// Why a quota does not allow a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuotaRejection {
    #[error("quota usage is negative for resource(s): {0}")]
    Negative(String),
    /// Containers leave out what is limited.
    #[error("failed quota: {quota}: must specify {missing}")]
    Unspecified { quota: String, missing: String },
    /// What is used was not calculated yet.
    #[error("status unknown for quota: {quota}, resources: {resources}")]
    StatusUnknown { quota: String, resources: String },
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        quota: String,
        requested: String,
        used: String,
        limited: String,
    },
}

/// The other objects of a cluster.
pub(super) struct CachedSurroundings<'a>(pub &'a WatchCaches);

/// What an object uses, and which conditions it meets.
struct ObjectUsage {
    usage: Totals,
    traits: ScopeAttributes,
}

impl UsageDelta {
    pub(super) fn new(
        meter: QuotaEvaluator,
        attributes: &AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Self {
        let used = |object| ObjectUsage {
            usage: meter.measure(object, attributes.ctx.now, &CachedSurroundings(caches)),
            traits: meter.traits(object),
        };
        UsageDelta {
            new: used(attributes.object),
            old: attributes.old.map(used),
            missing: meter.missing(attributes.object),
            is_fact: attributes.subresource == "status",
            dry_run: attributes.dry_run,
            meter,
        }
    }

    /// Charges all matching quotas or none. Returns whether any was charged, or why not.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go CheckRequest
    pub(super) fn charge(&self, accounts: &mut [QuotaState]) -> Result<bool, QuotaRejection> {
        let mut concerned = Vec::new();
        for account in &mut *accounts {
            if account.concerns(&self.meter, &self.new.traits) {
                self.inspect(account)?;
                concerned.push(account);
            }
        }
        let negative: Vec<_> = names(&self.new.usage, |amount| amount.sign().is_lt());
        if !negative.is_empty() {
            return Err(QuotaRejection::Negative(negative.join(",")));
        }
        let mut charges = Vec::new();
        for account in &concerned {
            charges.push(self.to_charge(account)?);
        }
        if self.dry_run {
            return Ok(false);
        }
        let mut is_charged = false;
        for (account, charge) in concerned.into_iter().zip(charges) {
            for (name, amount) in charge {
                is_charged = true;
                account.is_charged = true;
                account
                    .used
                    .entry(name)
                    .or_insert_with(Quantity::zero)
                    .add(&amount);
            }
        }
        Ok(is_charged)
    }

    /// Rejects missing requests or limits, and a quota without status.
    fn inspect(&self, account: &QuotaState) -> Result<(), QuotaRejection> {
        let mut tracked = account.hard.keys().filter(|name| self.meter.tracks(name));
        let missing: Vec<_> = self
            .missing
            .iter()
            .filter(|(name, _)| account.hard.contains_key(**name))
            .map(|(name, containers)| {
                let containers: Vec<_> = containers.iter().map(String::as_str).collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        if !missing.is_empty() {
            return Err(QuotaRejection::Unspecified {
                quota: account.name.clone(),
                missing: missing.join("; "),
            });
        }
        if tracked.clone().any(|name| !account.used.contains_key(name)) {
            let tracked: Vec<_> = tracked.by_ref().map(String::as_str).collect();
            return Err(QuotaRejection::StatusUnknown {
                quota: account.name.clone(),
                resources: tracked.join(","),
            });
        }
        Ok(())
    }

    /// What it would use more of a quota; an error if that is too much.
    fn to_charge(&self, account: &QuotaState) -> Result<Totals, QuotaRejection> {
        let before = self
            .old
            .as_ref()
            .filter(|old| account.concerns(&self.meter, &old.traits));
        let mut charge = self.new.usage.clone();
        if let Some(before) = before {
            for (name, amount) in &mut charge {
                if let Some(before) = before.usage.get(name) {
                    amount.sub(before);
                }
            }
        }
        charge.retain(|name, amount| amount.sign().is_gt() && account.hard.contains_key(name));
        let exceeded: Vec<_> = charge
            .iter()
            .filter(|(name, amount)| {
                let mut used = account.used.get(*name).cloned().unwrap_or_else(Quantity::zero);
                used.add(amount);
                used > account.hard[*name]
            })
            .map(|(name, _)| name)
            .collect();
        if exceeded.is_empty() || self.is_fact {
            return Ok(charge);
        }
        let print = |amounts: &Totals| {
            let of = |name: &&String| amounts.get(*name).map(|amount| format!("{name}={amount}"));
            let parts: Vec<_> = exceeded.iter().filter_map(of).collect();
            parts.join(",")
        };
        Err(QuotaRejection::Exceeded {
            quota: account.name.clone(),
            requested: print(&charge),
            used: print(&account.used),
            limited: print(&account.hard),
        })
    }
}

/// Whether a request can change what its object uses.
pub(super) fn matters(attributes: &AdmissionAttributes<'_>, meter: &QuotaEvaluator) -> bool {
    let creates = attributes.operation == Operation::Create;
    let part = attributes.subresource;
    let is_whole = part.is_empty();
    match meter {
        QuotaEvaluator::Pods => {
            let begins_to_end = || {
                let old = attributes.old;
                old.is_some_and(|old| is_terminating(old) != is_terminating(attributes.object))
            };
            (is_whole && (creates || begins_to_end())) || (!creates && part == "resize")
        }
        QuotaEvaluator::Services | QuotaEvaluator::Devices(_) => is_whole,
        QuotaEvaluator::Claims => is_whole || (!creates && part == "status"),
        QuotaEvaluator::Count(_) => is_whole && creates,
    }
}

// --- CachedSurroundings ---

impl UsageLookup for CachedSurroundings<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        object("", "pods", namespace, name, self.0)
    }

    fn device_claims(&self, namespace: &str) -> Vec<Value> {
        let claims = resource("resource.k8s.io", "resourceclaims", self.0);
        let snapshot = claims.cache.snapshot(Revision::ZERO);
        let prefix = claims.under(namespace);
        let found = snapshot.under(&prefix, None);
        found.map(|claim| claim.tree()).collect()
    }
}

fn names(amounts: &Totals, which: impl Fn(&Quantity) -> bool) -> Vec<&str> {
    let chosen = amounts.iter().filter(|(_, amount)| which(amount));
    chosen.map(|(name, _)| name.as_str()).collect()
}
