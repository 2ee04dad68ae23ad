//! Where in an object a machine keeps what it knows.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::state::{State, is_default};

/// The part of a status that belongs to the machine. Put it into the status of a kind with `#[serde(flatten)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The phase; empty before the first pass.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why the object is in a failed phase, or why the phase is being tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// While set, nothing is done.
    #[serde(skip_serializing_if = "is_default")]
    pub pause: bool,
    /// What is known of each phase's handler.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, State>,
    /// What was decided about phases that need approval.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit: BTreeMap<String, Audit>,
}

/// What was decided about a phase that needs approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// The decision.
    pub result: Approval,
    /// Who decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<MicroTime>,
}

/// A decision about a phase that needs approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Nobody has decided. The phase waits.
    #[default]
    Pending,
    /// The phase may begin.
    Passed,
    /// The phase fails.
    Rejected,
}

/// A kind whose objects a machine can drive. [`phased!`](crate::phased) writes it for the usual layout.
pub trait Phased:
    kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// What the machine wrote, if it wrote anything.
    fn phases(&self) -> Option<&PhaseStatus>;

    /// The same, to be changed; made if it is not there.
    fn phases_mut(&mut self) -> &mut PhaseStatus;

    /// Whether nothing must be done. A kind with a `pause` in its spec asks that too.
    fn paused(&self) -> bool {
        self.phases().is_some_and(|status| status.pause)
    }

    /// Sets what [`paused`](Self::paused) reads.
    fn set_pause(&mut self, pause: bool) {
        self.phases_mut().pause = pause;
    }

    /// The phase; empty before the first pass.
    fn phase(&self) -> &str {
        self.phases().map_or("", |status| status.phase.as_str())
    }
}

/// Implements [`Phased`](crate::phase::Phased) for a kind whose `status` is an `Option` of a `Default` type with a field
/// `phases: PhaseStatus`.
///
/// With `pause = spec.pause` a `bool` elsewhere in the object pauses it instead of `status.pause`.
///
/// ```text
/// phased!(Migration);
/// phased!(Migration, pause = spec.pause);
/// ```
#[macro_export]
macro_rules! phased {
    ($kind:ty $(, pause = $($pause:ident).+)?) => {
        impl $crate::phase::Phased for $kind {
            fn phases(&self) -> Option<&$crate::phase::PhaseStatus> {
                self.status.as_ref().map(|status| &status.phases)
            }
            fn phases_mut(&mut self) -> &mut $crate::phase::PhaseStatus {
                &mut self.status.get_or_insert_default().phases
            }
            $(
                fn paused(&self) -> bool {
                    self.$($pause).+
                }
                fn set_pause(&mut self, pause: bool) {
                    self.$($pause).+ = pause;
                }
            )?
        }
    };
}
