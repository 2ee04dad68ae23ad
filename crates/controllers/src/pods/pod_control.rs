//! Creates and deletes single pods for an owner, and records events.

use k3_workloads::{ObjectMeta, Pod};
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::EventRecorder;
use serde_json::value::RawValue;

use super::pod_from_template::PodTemplateError;
use crate::{
    event_message::EventMessage,
    resource::{PODS, Resource},
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, has_status_code,
        is_namespace_terminating,
    },
};

/// Makes and deletes the pods of one owner.
// upstream: pkg/controller/controller_utils.go RealPodControl
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
        owner: &'a ObjectMeta,
        resource: &Resource,
    ) -> Self {
        PodControl {
            writer,
            recorder,
            namespace: &owner.namespace,
            about: resource.object_reference(owner),
        }
    }

    /// Records an event about the owner.
    pub(crate) fn record(&self, event: &EventMessage) {
        event.record(self.recorder, &self.about);
    }

    /// Records that the template is invalid.
    pub(crate) fn record_template_error(&self, why: &PodTemplateError) {
        self.record(&EventMessage::warning(
            "FailedCreate",
            format_args!("Error creating: {why}"),
        ));
    }

    /// Creates a pod. Returns `None` as error if a retry is useless: the namespace is terminating.
    // upstream: pkg/controller/controller_utils.go createPods
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

    /// Deletes a pod. Returns whether it existed: if not, no deletion event will arrive.
    // upstream: pkg/controller/controller_utils.go DeletePod
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
            // Another pod has the name: this one is already deleted.
            Err(error) if has_status_code(&error, 409) => Ok(false),
            Err(error) => {
                let note = format_args!("Error deleting: {}", error_message(&error));
                self.record(&EventMessage::warning("FailedDelete", note));
                Err(error)
            }
        }
    }
}
