//! The commands, one module each.

pub(crate) mod api_resources;
pub(crate) mod api_versions;
pub(crate) mod apply;
pub(crate) mod completion;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod kubeconfig;
pub(crate) mod logs;
mod pods;
pub(crate) mod rollout;
pub(crate) mod scale;
pub(crate) mod top;
pub(crate) mod wait;
