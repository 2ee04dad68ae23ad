//! Makes and deletes single pods for an owner, and tells of it.

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::EventRecorder;
use serde_json::value::RawValue;

use super::making::Unmakeable;
use crate::{
    news::News,
    objects::{Meta, Pod},
    resource::{PODS, Resource},
    writer::{Made, Place, Writer, is, is_namespace_going, only, words},
};

/// Makes and deletes the pods of one owner.
pub(crate) struct Hands<'a> {
    writer: &'a Writer,
    recorder: &'a EventRecorder,
    namespace: &'a str,
    about: ObjectReference,
}

impl<'a> Hands<'a> {
    /// For an owner.
    pub(crate) fn new(
        writer: &'a Writer,
        recorder: &'a EventRecorder,
        owner: &'a Meta,
        resource: &Resource,
    ) -> Self {
        Hands {
            writer,
            recorder,
            namespace: &owner.namespace,
            about: owner.reference(resource),
        }
    }

    /// Tells something about the owner.
    pub(crate) fn tell(&self, news: &News) {
        news.tell(self.recorder, &self.about);
    }

    /// Tells that no pod can be made.
    pub(crate) fn tell_unmakeable(&self, why: &Unmakeable) {
        self.tell(&News::warning(
            "FailedCreate",
            format_args!("Error creating: {why}"),
        ));
    }

    /// Makes a pod. Fails with nothing if nothing can be done about it: the namespace goes.
    pub(crate) async fn make(&self, pod: &RawValue) -> Result<(), Option<kube::Error>> {
        match self.writer.create::<Made>(&PODS, self.namespace, &pod).await {
            Ok(pod) => {
                let note = format_args!("Created pod: {}", pod.metadata.name);
                self.tell(&News::normal("SuccessfulCreate", note));
                Ok(())
            }
            Err(error) if is_namespace_going(&error) => Err(None),
            Err(error) => {
                let note = format_args!("Error creating: {}", words(&error));
                self.tell(&News::warning("FailedCreate", note));
                Err(Some(error))
            }
        }
    }

    /// Deletes a pod. Says whether it was there to be deleted: if not, its going will not be seen.
    pub(crate) async fn delete(&self, pod: &Pod) -> kube::Result<bool> {
        let place = Place::new(&PODS, self.namespace, &pod.metadata.name);
        match self.writer.delete(place, &only(&pod.metadata.uid)).await {
            Ok(()) => {
                let note = format_args!("Deleted pod: {}", pod.metadata.name);
                self.tell(&News::normal("SuccessfulDelete", note));
                Ok(true)
            }
            // Another pod has the name: this one is gone.
            Err(error) if is(&error, 409) => Ok(false),
            Err(error) => {
                let note = format_args!("Error deleting: {}", words(&error));
                self.tell(&News::warning("FailedDelete", note));
                Err(error)
            }
        }
    }
}
