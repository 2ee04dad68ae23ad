//! What has to be done for a deployment: the replica sets to make, to change and to delete, and what to say of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    condition::PROGRESSING,
    progress::{self, CREATED, FOUND},
    rollback::{self, Rollback},
    rollout::Rollout,
    set::{Change, REVISION, Set},
};
use crate::{
    objects::{
        Condition, ConditionStatus, Deployment, DeploymentStatus, ReplicaSet, StrategyKind, TEMPLATE_HASH,
    },
    pods::making::NewMeta,
    resource,
};

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What has to be done, in this order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) creation: Option<Creation>,
    pub(super) changes: Vec<Change>,
    pub(super) removals: Vec<Arc<ReplicaSet>>,
    pub(super) rollback: Option<Rollback>,
    /// What is to be said, if it is not what is said already.
    pub(super) status: Option<DeploymentStatus>,
    /// The revision to be written on the deployment.
    pub(super) revision: Option<Box<str>>,
    /// The deployment is not one that can be worked on.
    pub(super) selects_all: bool,
    /// When to look again, if nothing happens.
    pub(super) again: Option<Duration>,
}

/// A replica set to be made.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) name: Box<str>,
    pub(super) replicas: i32,
    pub(super) body: Value,
}

/// Plans for a deployment and the replica sets that are its own. `has_pods` says whether one of the sets with these uids has
/// a pod that has not ended.
pub(super) fn plan(
    deployment: &Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    has_pods: impl Fn(&ReplicaSet) -> bool,
    now: Timestamp,
) -> serde_json::Result<Plan> {
    if deployment.spec.selector.selector.is_empty() {
        return Ok(selecting_all(deployment));
    }
    let mut planner = Planner::new(deployment, sets, now)?;
    planner.work(has_pods)?;
    Ok(planner.finish())
}

/// A selector that means all pods is a mistake: nothing is done, and that was seen.
fn selecting_all(deployment: &Deployment) -> Plan {
    let mut status = deployment.status.clone();
    status.observed_generation = deployment.metadata.generation;
    Plan {
        status: (status != deployment.status).then_some(status),
        selects_all: true,
        ..Plan::default()
    }
}

struct Planner<'d> {
    rollout: Rollout<'d>,
    /// What is said of the deployment, with what happens on the way.
    status: DeploymentStatus,
    plan: Plan,
    now: Timestamp,
}

impl<'d> Planner<'d> {
    fn new(
        deployment: &'d Deployment,
        sets: Vec<Arc<ReplicaSet>>,
        now: Timestamp,
    ) -> serde_json::Result<Self> {
        let meaning = deployment.spec.template.meaning()?;
        let mut sets: Vec<_> = sets.into_iter().map(Set::there).collect();
        sets.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
        // If there are several, which should not be, the oldest stays the one.
        let is_new = |set: &Set| {
            let template = set.seen.as_ref().map(|seen| seen.spec.template.meaning());
            template.is_some_and(|template| template.is_ok_and(|template| template == meaning))
        };
        Ok(Planner {
            rollout: Rollout {
                deployment,
                new: sets.iter().position(is_new),
                sets,
            },
            status: deployment.status.clone(),
            plan: Plan::default(),
            now,
        })
    }

    fn work(&mut self, has_pods: impl Fn(&ReplicaSet) -> bool) -> serde_json::Result<()> {
        let deployment = self.rollout.deployment;
        if deployment.metadata.is_going() {
            self.note_newest();
            self.count();
            return Ok(());
        }
        progress::note_pause(deployment, &mut self.status.conditions, self.now);
        let rollback = rollback::asked_for(deployment);
        if deployment.spec.paused {
            self.note_newest();
            self.rollout.scale();
            if rollback.is_none() {
                self.clean_up();
            }
            self.count();
            return Ok(());
        }
        if let Some(revision) = rollback {
            self.ensure_new()?;
            self.plan.rollback = Some(rollback::to(&self.rollout, revision));
            return Ok(());
        }
        self.note_newest();
        if self.rollout.is_scaled() {
            self.rollout.scale();
            self.count();
            return Ok(());
        }
        match deployment.spec.strategy.kind {
            StrategyKind::RollingUpdate => {
                self.ensure_new()?;
                self.rollout.roll();
            }
            StrategyKind::Recreate => {
                let rollout = &mut self.rollout;
                if rollout.clear_old() || rollout.old().any(|old| is_running(&rollout.sets[old], &has_pods)) {
                    self.estimate();
                    return Ok(());
                }
                self.ensure_new()?;
                self.rollout.fill_new();
            }
        }
        if progress::is_complete(deployment, &deployment.status) {
            self.clean_up();
        }
        self.estimate();
        Ok(())
    }

    fn finish(mut self) -> Plan {
        let deployment = self.rollout.deployment;
        let mut order: Vec<_> = self.rollout.new.into_iter().chain(self.rollout.old()).collect();
        // What makes room goes first where room is needed, what fills it where pods are needed: the new set grows before the
        // old ones shrink.
        order.retain(|set| self.rollout.sets[*set].seen.is_some());
        self.plan.changes = order
            .into_iter()
            .filter_map(|set| self.rollout.sets[set].change())
            .collect();
        if let Some(creation) = &mut self.plan.creation {
            let new = self.rollout.new.map(|new| &self.rollout.sets[new]);
            creation.replicas = new.map_or(0, |new| new.replicas);
            creation.body["spec"]["replicas"] = creation.replicas.into();
        }
        self.plan.again = progress::next_look(deployment, &self.status, self.now);
        self.plan.status = (self.status != deployment.status).then_some(self.status);
        self.plan
    }

    fn count(&mut self) {
        self.status = progress::counted(&self.rollout, &self.status, self.now);
    }

    fn estimate(&mut self) {
        self.status = progress::estimated(&self.rollout, &self.status, self.now);
    }

    // --- the new set ---

    fn next_revision(&self) -> i64 {
        let sets = &self.rollout.sets;
        let old = self.rollout.old().filter_map(|old| sets[old].revision());
        old.max().unwrap_or(0).max(0) + 1
    }

    /// Keeps the set of the deployment's template the newest one, and the deployment's revision its revision.
    fn note_newest(&mut self) {
        let (deployment, revision) = (self.rollout.deployment, self.next_revision());
        let Some(new) = self.rollout.new else { return };
        let set = &mut self.rollout.sets[new];
        set.note_newest(deployment, revision);
        set.min_ready_seconds = deployment.spec.min_ready_seconds;
        let (revision, message) = (
            set.annotations.get(REVISION).cloned(),
            format!("Found new replica set {:?}", set.name),
        );
        self.note_revision(revision.unwrap_or_default());
        let is_known = Condition::find(&self.status.conditions, PROGRESSING).is_some();
        if progress::deadline(deployment).is_some() && !is_known {
            self.note_progress(FOUND, message);
        }
    }

    fn note_revision(&mut self, revision: Box<str>) {
        if self.rollout.deployment.metadata.annotation(REVISION) != Some(&revision) {
            self.plan.revision = Some(revision);
        }
    }

    fn note_progress(&mut self, reason: &str, message: String) {
        progress::note(
            &mut self.status.conditions,
            ConditionStatus::True,
            reason,
            message,
            self.now,
        );
    }

    /// Makes the set of the deployment's template if it is not there.
    fn ensure_new(&mut self) -> serde_json::Result<()> {
        if self.rollout.new.is_some() {
            return Ok(());
        }
        let (deployment, revision) = (self.rollout.deployment, self.next_revision());
        let hash = deployment.spec.template.hash(deployment.status.collision_count)?;
        let name = set_name(&deployment.metadata.name, &hash);
        let mut set = Set::new(&name, deployment);
        set.replicas = self.rollout.room_for_new(0);
        set.note_newest(deployment, revision);
        set.note_scale(deployment.spec.replicas, self.rollout.most());
        self.plan.creation = Some(Creation {
            body: body(deployment, &set, &hash)?,
            name: set.name.clone(),
            replicas: set.replicas,
        });
        self.rollout.sets.push(set);
        self.rollout.new = Some(self.rollout.sets.len() - 1);
        self.note_revision(revision.to_string().into());
        if progress::deadline(deployment).is_some() {
            self.note_progress(CREATED, format!("Created new replica set {name:?}"));
        }
        Ok(())
    }

    // --- old sets ---

    /// Deletes old sets beyond those that are kept, the oldest revisions first. Those that have pods stay.
    fn clean_up(&mut self) {
        let limit = self.rollout.deployment.spec.revision_history_limit;
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else {
            return;
        };
        let sets = &self.rollout.sets;
        let mut old: Vec<_> = self
            .rollout
            .old()
            .filter_map(|old| Some((sets[old].revision(), &sets[old], sets[old].seen.as_ref()?)))
            .filter(|(_, _, seen)| !seen.metadata.is_going())
            .collect();
        old.sort_by_key(|(revision, set, _)| (revision.unwrap_or(0), set.created, &set.name));
        let spare = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let is_empty = |set: &Set, seen: &ReplicaSet| {
            set.replicas == 0
                && seen.spec.replicas == 0
                && seen.status.replicas == 0
                && seen.metadata.generation <= seen.status.observed_generation
        };
        let removals = old[..spare].iter().filter(|(_, set, seen)| is_empty(set, seen));
        self.plan.removals = removals.map(|(_, _, seen)| Arc::clone(seen)).collect();
    }
}

/// Whether a set has pods, or says that it has.
fn is_running(set: &Set, has_pods: impl Fn(&ReplicaSet) -> bool) -> bool {
    set.status.replicas > 0 || set.seen.as_ref().is_some_and(|seen| has_pods(seen))
}

/// The name of the deployment, cut if it has to be, and the hash of the template.
fn set_name(deployment: &str, hash: &str) -> String {
    let kept = deployment.floor_char_boundary(LONGEST_NAME - 1 - hash.len());
    format!("{}-{hash}", &deployment[..kept])
}

/// The text of a replica set of a deployment's template. Label and selector have the hash, so that no other set's pods are
/// taken for its own.
fn body(deployment: &Deployment, set: &Set, hash: &str) -> serde_json::Result<Value> {
    let mut template = deployment.spec.template.tree()?;
    template["metadata"]["labels"][TEMPLATE_HASH] = hash.into();
    let mut selector: Value = serde_json::from_str(deployment.spec.selector.text.get())?;
    selector["matchLabels"][TEMPLATE_HASH] = hash.into();
    let labels: BTreeMap<Box<str>, Box<str>> =
        kubecontroller::decode::from_value(&template["metadata"]["labels"])?;
    let metadata = NewMeta {
        name: set.name.clone(),
        labels,
        annotations: set.annotations.clone(),
        owner_references: vec![deployment.metadata.as_controller(&resource::DEPLOYMENTS)],
        ..NewMeta::default()
    };
    Ok(json!({
        "apiVersion": resource::REPLICA_SETS.api_version(),
        "kind": resource::REPLICA_SETS.kind,
        "metadata": metadata,
        "spec": {
            "replicas": set.replicas,
            "minReadySeconds": set.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }))
}
