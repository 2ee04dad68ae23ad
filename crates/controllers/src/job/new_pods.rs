//! Builds the pods of Jobs.
//!
//! A pod's name derives from its job and the completed work, so that two replicas of this controller choose the same names and
//! the second one gets AlreadyExists.

use k3_api::name::{MAX_BASE, generate};
use serde_json::{Value, json, value::RawValue};

use super::{
    manage::PodCreation,
    pods::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX},
    snapshot::JobSnapshot,
};
use crate::{
    objects::Job,
    pods::pod_from_template::{PodFromTemplate, PodTemplateError},
    resource::JOBS,
};

const ENV: &str = "JOB_COMPLETION_INDEX";

/// A pod to create.
#[derive(Debug)]
pub(super) struct JobPod {
    pub text: Box<RawValue>,
    pub name: Box<str>,
}

/// Builds the pods to create. `is_name_taken` reports which names exist.
// upstream: pkg/controller/job/indexed_job_utils.go addCompletionIndexAnnotation, addCompletionIndexLabel, addIndexFailureCountAnnotation
pub(super) fn new_pods(
    snapshot: &JobSnapshot<'_>,
    wanted: &[PodCreation],
    is_name_taken: impl Fn(&str) -> bool,
) -> Result<Vec<JobPod>, PodTemplateError> {
    let job = snapshot.job;
    let owner = JOBS.controller_reference(&job.metadata);
    let plain = PodFromTemplate::new(&job.spec.template, owner)?;
    let mut spec: Value = serde_json::from_str(plain.spec.get())?;
    if job.is_indexed() {
        add_completion_index_env(&mut spec);
    }
    let mut attempt = u32::try_from(snapshot.failed + snapshot.succeeded).unwrap_or(0);
    let mut written = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let mut metadata = plain.metadata.clone();
        if !metadata
            .finalizers
            .iter()
            .any(|finalizer| &**finalizer == FINALIZER)
        {
            metadata.finalizers.push(FINALIZER.into());
        }
        if let Some(index) = wanted.index {
            metadata.generate_name = prefix(job, index).into();
            metadata.labels.insert(INDEX.into(), index.to_string().into());
            metadata
                .annotations
                .insert(INDEX.into(), index.to_string().into());
            spec["hostname"] = format!("{}-{index}", job.metadata.name).into();
        }
        if let Some((counted, ignored)) = wanted.failures {
            metadata
                .annotations
                .insert(FAILURES.into(), counted.to_string().into());
            if ignored > 0 {
                metadata
                    .annotations
                    .insert(IGNORED_FAILURES.into(), ignored.to_string().into());
            }
        }
        metadata.name = loop {
            let name = pod_name(job, &metadata.generate_name, attempt);
            attempt = attempt.wrapping_add(1);
            if !is_name_taken(&name) {
                break name.into();
            }
        };
        let name = metadata.name.clone();
        let pod = match wanted.index {
            Some(_) => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
            None => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": plain.spec}),
        };
        let text = serde_json::value::to_raw_value(&pod)?;
        written.push(JobPod { text, name });
    }
    Ok(written)
}

/// Name prefix of the pods of an index.
// upstream: pkg/controller/job/indexed_job_utils.go podGenerateNameWithIndex
fn prefix(job: &Job, index: u32) -> String {
    let end = format!("-{index}-");
    let name = &*job.metadata.name;
    let boundary = name.floor_char_boundary(MAX_BASE.saturating_sub(end.len()));
    format!("{}{end}", &name[..boundary])
}

/// A pod name in the form of a generated one.
fn pod_name(job: &Job, prefix: &str, attempt: u32) -> String {
    let bytes = job
        .metadata
        .uid
        .bytes()
        .chain(prefix.bytes())
        .chain(attempt.to_le_bytes());
    let mut state = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    generate(prefix, || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from(mixed >> 32).unwrap_or(0)
    })
}

/// Adds the environment variable JOB_COMPLETION_INDEX to all containers.
// upstream: pkg/controller/job/indexed_job_utils.go addCompletionIndexEnvVariables
fn add_completion_index_env(spec: &mut Value) {
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert_with(|| json!([]));
            if env.is_null() {
                *env = json!([]);
            }
            let Some(env) = env.as_array_mut() else { continue };
            if env
                .iter()
                .all(|variable| variable.get("name").and_then(Value::as_str) != Some(ENV))
            {
                let path = format!("metadata.labels['{INDEX}']");
                env.push(json!({"name": ENV, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
            }
        }
    }
}
