//! Makes and deletes single pods for an owner, and tells of it.

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::EventRecorder;
use serde_json::value::RawValue;

use super::pod_from_template::PodTemplateError;
use crate::{
    event_message::EventMessage,
    objects::{Meta, Pod},
    resource::{PODS, Resource},
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, has_status_code,
        is_namespace_terminating,
    },
};

/// Makes and deletes the pods of one owner.
pub(crate) struct PodControl<'a> {
    writer: &'a ApiWriter,
    recorder: &'a EventRecorder,
    namespace: &'a str,
    about: ObjectReference,
}

impl<'a> PodControl<'a> {
    /// For an owner.
    pub(crate) fn new(
        writer: &'a ApiWriter,
        recorder: &'a EventRecorder,
        owner: &'a Meta,
        resource: &Resource,
    ) -> Self {
        PodControl {
            writer,
            recorder,
            namespace: &owner.namespace,
            about: owner.reference(resource),
        }
    }

    /// Tells something about the owner.
    pub(crate) fn record(&self, news: &EventMessage) {
        news.record(self.recorder, &self.about);
    }

    /// Tells that no pod can be made.
    pub(crate) fn record_template_error(&self, why: &PodTemplateError) {
        self.record(&EventMessage::warning(
            "FailedCreate",
            format_args!("Error creating: {why}"),
        ));
    }

    /// Makes a pod. Fails with nothing if nothing can be done about it: the namespace goes.
    pub(crate) async fn create(&self, pod: &RawValue) -> Result<(), Option<kube::Error>> {
        match self
            .writer
            .create::<WrittenObject>(&PODS, self.namespace, &pod)
            .await
        {
            Ok(pod) => {
                let note = format_args!("Created pod: {}", pod.metadata.name);
                self.record(&EventMessage::normal("SuccessfulCreate", note));
                Ok(())
            }
            Err(error) if is_namespace_terminating(&error) => Err(None),
            Err(error) => {
                let note = format_args!("Error creating: {}", error_message(&error));
                self.record(&EventMessage::warning("FailedCreate", note));
                Err(Some(error))
            }
        }
    }

    /// Deletes a pod. Says whether it was there to be deleted: if not, its going will not be seen.
    pub(crate) async fn delete(&self, pod: &Pod) -> kube::Result<bool> {
        let object_ref = ObjectRef::new(&PODS, self.namespace, &pod.metadata.name);
        match self
            .writer
            .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
            .await
        {
            Ok(()) => {
                let note = format_args!("Deleted pod: {}", pod.metadata.name);
                self.record(&EventMessage::normal("SuccessfulDelete", note));
                Ok(true)
            }
            // Another pod has the name: this one is gone.
            Err(error) if has_status_code(&error, 409) => Ok(false),
            Err(error) => {
                let note = format_args!("Error deleting: {}", error_message(&error));
                self.record(&EventMessage::warning("FailedDelete", note));
                Err(error)
            }
        }
    }
}
