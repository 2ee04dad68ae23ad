//! Describes Pod Security violations: the reasons and the containers.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use k3_api::strategy::Tree;
use serde_json::{Map, Value};

/// A pod, or a template of one.
pub(super) struct Pod<'p> {
    pub annotations: &'p Map<String, Value>,
    pub spec: &'p Value,
}

/// Something a pod must not do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// What it is.
    pub reason: Cow<'static, str>,
    /// Who does it and how.
    pub detail: String,
}

/// Who in a pod does something: the pod itself, containers, or both.
#[derive(Default)]
pub(super) struct ViolationSources<'p> {
    pub pod: bool,
    pub containers: Vec<&'p str>,
}

// --- Pod ---

impl<'p> Pod<'p> {
    /// A pod in an object that has metadata and a spec.
    pub(super) fn of(object: &'p Value) -> Self {
        Pod {
            annotations: object.at("metadata").entries("annotations"),
            spec: object.at("spec"),
        }
    }

    /// All containers, in the order of their lists: init containers, containers, ephemeral containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'p Value> + use<'p> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| spec.items(list))
    }

    /// The names of the containers that do something.
    pub(super) fn containers_that(&self, mut does: impl FnMut(&'p Value) -> bool) -> Vec<&'p str> {
        self.containers()
            .filter(|container| does(container))
            .map(|container| container.text("name"))
            .collect()
    }

    /// Who sets something in its security context.
    pub(super) fn offenders(&self, mut does: impl FnMut(&'p Value) -> bool) -> ViolationSources<'p> {
        ViolationSources {
            pod: does(self.spec.at("securityContext")),
            containers: self.containers_that(|container| does(container.at("securityContext"))),
        }
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Whether its users are none of the host's.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.at("hostUsers") == &Value::Bool(false)
    }
}

// --- Violation ---

impl Violation {
    pub(super) fn new(reason: &'static str, detail: String) -> Self {
        Violation {
            reason: Cow::Borrowed(reason),
            detail,
        }
    }
}

/// What is wrong, in short.
// upstream: staging/src/k8s.io/pod-security-admission/policy/checks.go ForbiddenReason
pub(super) fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<_> = violations
        .iter()
        .map(|violation| violation.reason.as_ref())
        .collect();
    reasons.join(", ")
}

/// What is wrong, in full; nothing if nothing is.
// upstream: staging/src/k8s.io/pod-security-admission/policy/checks.go ForbiddenDetail
pub(super) fn details(violations: &[Violation]) -> String {
    let details: Vec<_> = violations
        .iter()
        .map(|violation| format!("{} ({})", violation.reason, violation.detail))
        .collect();
    details.join(", ")
}

// --- ViolationSources ---

impl ViolationSources<'_> {
    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }
}

impl fmt::Display for ViolationSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pod {
            f.write_str("pod")?;
        }
        if self.pod && !self.containers.is_empty() {
            f.write_str(" and ")?;
        }
        if !self.containers.is_empty() {
            f.write_str(&containers(&self.containers))?;
        }
        Ok(())
    }
}

/// Containers by name: `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        quoted(names)
    )
}

/// Each in quotes, as it is.
pub(super) fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let items: Vec<_> = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()))
        .collect();
    items.join(", ")
}

/// Values without repetition, in order.
pub(super) type UniqueValues<'p> = BTreeSet<Cow<'p, str>>;

pub(super) fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}
