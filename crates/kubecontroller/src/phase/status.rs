//! The part of an object's status that belongs to the state machine.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::state::{HandlerState, is_default};

/// The machine's part of a status. Embed it in the status of a kind with `#[serde(flatten)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The phase; empty before the first pass.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why the object is in a failed phase, or why the phase is being retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the object is paused.
    #[serde(skip_serializing_if = "is_default")]
    pub pause: bool,
    /// The state of each phase's handler.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, HandlerState>,
    /// The decisions about phases that need approval.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit: BTreeMap<String, Audit>,
}

/// The decision about a phase that needs approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// The decision.
    pub result: Approval,
    /// The user that decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The reason for the decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time of the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<MicroTime>,
}

/// The result of an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Not decided. The phase waits.
    #[default]
    Pending,
    /// The phase may start.
    Passed,
    /// The phase fails.
    Rejected,
}

/// A kind whose objects a state machine can process. [`phased!`](crate::phased) implements it for the usual layout.
pub trait Phased:
    kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The machine's part of the status; none before the first write.
    fn phases(&self) -> Option<&PhaseStatus>;

    /// The machine's part of the status, created if absent.
    fn phases_mut(&mut self) -> &mut PhaseStatus;

    /// Whether the object is paused. Kinds with a `pause` field in their spec override this.
    fn paused(&self) -> bool {
        self.phases().is_some_and(|status| status.pause)
    }

    /// Sets the field that [`paused`](Self::paused) reads.
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
/// With `pause = spec.pause`, that `bool` field pauses the object instead of `status.pause`.
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
