//! Pods that no job counts any more are not held back: their job is gone or has finished, or has let them go.

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
    object::Object,
    store::Store,
};

use super::{job_of, pods::is_tracked, tracking::release};
use crate::{
    context::ControllerContext,
    controller_ref_manager::OwnerIndex,
    objects::{Job, Pod},
    resource::JOBS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Lets go of such pods.
#[derive(Clone)]
pub(super) struct Strays {
    writer: ApiWriter,
    jobs: Store<Job>,
    pods: Store<Pod>,
    family: OwnerIndex<Pod>,
}

// --- Strays ---

impl Strays {
    pub(super) fn new(context: &ControllerContext, jobs: &Store<Job>, pods: &Store<Pod>) -> Self {
        Strays {
            writer: context.writer.clone(),
            jobs: jobs.clone(),
            pods: pods.clone(),
            family: OwnerIndex::new(pods),
        }
    }

    /// Which pods may be concerned by the change of a pod.
    pub(super) fn in_pods(&self, delta: &Delta<Pod>) -> Vec<Key> {
        let pod = delta.new().filter(|pod| self.may_be_stray(pod));
        pod.map(|pod| pod.key()).into_iter().collect()
    }

    /// Which pods may be concerned by the change of a job.
    pub(super) fn in_jobs(&self, delta: &Delta<Job>) -> Vec<Key> {
        let is_over = delta.new().is_none_or(|job| job.finished().is_some());
        if !is_over {
            return Vec::new();
        }
        let pods = self.family.children(&delta.object().metadata.uid).into_iter();
        pods.filter(|pod| is_tracked(pod)).map(|pod| pod.key()).collect()
    }

    /// Whether a pod is held back, and no job is known that does it.
    fn may_be_stray(&self, pod: &Pod) -> bool {
        let is_of_job = |pod: &Pod| {
            let owner = pod.metadata.controller();
            owner.is_none_or(|owner| &*owner.kind == "Job" && *owner.api_version == *JOBS.api_version())
        };
        let counts = |job: &Job| !job.is_managed_here() || job.finished().is_none();
        is_tracked(pod) && is_of_job(pod) && job_of(&self.jobs, pod).is_none_or(|job| !counts(&job))
    }

    /// Whether the server has the job of a pod that is not known here.
    async fn has_job(&self, pod: &Pod) -> kube::Result<bool> {
        let Some(owner) = pod.metadata.controller() else {
            return Ok(false);
        };
        if job_of(&self.jobs, pod).is_some() {
            return Ok(false);
        }
        let object_ref = ObjectRef::new(&JOBS, &pod.metadata.namespace, &owner.name);
        match self.writer.get::<WrittenObject>(object_ref).await {
            Ok(job) => Ok(job.metadata.uid == owner.uid),
            Err(error) if has_status_code(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Reconciler for Strays {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let pod = self.pods.get(&request.key);
        let Some(pod) = pod.filter(|pod| self.may_be_stray(pod)) else {
            return Ok(Outcome::Done);
        };
        // A job that the informer has not seen yet will tell of itself.
        if !self.has_job(&pod).await? {
            release(&self.writer, &pod).await?;
        }
        Ok(Outcome::Done)
    }
}
