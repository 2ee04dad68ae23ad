//! Removes the tracking finalizer of orphan pods: their job is deleted or finished, or has released them.

use k3_workloads::Pod;
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
    object::Object,
    store::Store,
};

use super::{controlling_job, finalizer::remove_finalizer, pods::is_tracked};
use crate::{
    context::ControllerContext,
    controller_ref_manager::OwnerIndex,
    objects::Job,
    resource::JOBS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

#[derive(Clone)]
pub(super) struct OrphanPodController {
    writer: ApiWriter,
    jobs: Store<Job>,
    pods: Store<Pod>,
    pods_by_owner: OwnerIndex<Pod>,
}

// --- OrphanPodController ---

impl OrphanPodController {
    pub(super) fn new(context: &ControllerContext, jobs: &Store<Job>, pods: &Store<Pod>) -> Self {
        OrphanPodController {
            writer: context.writer.clone(),
            jobs: jobs.clone(),
            pods: pods.clone(),
            pods_by_owner: OwnerIndex::new(pods),
        }
    }

    /// Pods to check after a pod event.
    // upstream: pkg/controller/job/job_controller.go enqueueOrphanPod
    pub(super) fn pods_to_check_after_pod_event(&self, delta: &Delta<Pod>) -> Vec<Key> {
        let pod = delta.new().filter(|pod| self.may_be_orphan(pod));
        pod.map(|pod| pod.key()).into_iter().collect()
    }

    /// Pods to check after a job event.
    pub(super) fn pods_to_check_after_job_event(&self, delta: &Delta<Job>) -> Vec<Key> {
        let is_over = delta.new().is_none_or(|job| job.finished().is_some());
        if !is_over {
            return Vec::new();
        }
        let pods = self
            .pods_by_owner
            .children(&delta.object().metadata.uid)
            .into_iter();
        pods.filter(|pod| is_tracked(pod)).map(|pod| pod.key()).collect()
    }

    /// Whether a pod has the finalizer and no known job tracks it.
    fn may_be_orphan(&self, pod: &Pod) -> bool {
        let is_of_job = |pod: &Pod| {
            let owner = pod.metadata.controller();
            owner.is_none_or(|owner| &*owner.kind == "Job" && *owner.api_version == *JOBS.api_version())
        };
        let counts = |job: &Job| !job.is_managed_here() || job.finished().is_none();
        is_tracked(pod) && is_of_job(pod) && controlling_job(&self.jobs, pod).is_none_or(|job| !counts(&job))
    }

    /// Whether the server has the job of a pod that is not in the informer's cache.
    // upstream: pkg/controller/job/job_controller.go handleSingleOrphanPod
    async fn has_job(&self, pod: &Pod) -> kube::Result<bool> {
        let Some(owner) = pod.metadata.controller() else {
            return Ok(false);
        };
        if controlling_job(&self.jobs, pod).is_some() {
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

impl Reconciler for OrphanPodController {
    // upstream: pkg/controller/job/job_controller.go syncOrphanPod, handleSingleOrphanPod
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let pod = self.pods.get(&request.key);
        let Some(pod) = pod.filter(|pod| self.may_be_orphan(pod)) else {
            return Ok(Outcome::Done);
        };
        // A job that the informer has not delivered yet will be synced itself.
        if !self.has_job(&pod).await? {
            remove_finalizer(&self.writer, &pod).await?;
        }
        Ok(Outcome::Done)
    }
}
