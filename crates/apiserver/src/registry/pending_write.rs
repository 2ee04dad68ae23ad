//! A write on its way to the store, as create, update, patch and delete share it.

use k3_api::{kinds::Kind, strategy::StrategyContext};
use serde_json::Value;

use super::{RequestContext, Resource, request_context::Warnings, storage_version};
use crate::{
    admission::{AdmissionAttributes, Operation},
    request::{CommitMode, DeleteOptions, WriteOptions},
};

/// A write of one object that is not committed yet, with what each of its steps needs.
pub(super) struct PendingWrite<'w, O = WriteOptions> {
    pub ctx: &'w RequestContext,
    pub resource: &'w Resource,
    pub options: &'w O,
    /// Warnings for the client, so far.
    pub warnings: Warnings,
    /// Whether a PUT or an apply creates the object: the request was authorized as another verb.
    pub needs_create_permission: bool,
}

/// Options of a write that may be a dry run.
pub(super) trait DryRun {
    /// Whether it is committed in the end.
    fn mode(&self) -> CommitMode;
}

// --- PendingWrite ---

impl<'w, O: DryRun> PendingWrite<'w, O> {
    pub(super) fn new(ctx: &'w RequestContext, resource: &'w Resource, options: &'w O) -> Self {
        PendingWrite {
            ctx,
            resource,
            options,
            warnings: Warnings::default(),
            needs_create_permission: false,
        }
    }

    /// What admission is asked about.
    pub(super) fn attributes<'a>(
        &'a mut self,
        operation: Operation,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            operation,
            resource: self.resource,
            subresource: self.ctx.target.part(),
            namespace: &self.ctx.target.namespace,
            object,
            old,
            ctx: self.ctx,
            dry_run: self.is_dry_run(),
            warnings: &mut self.warnings.0,
        }
    }

    /// The kind whose rules validate the object.
    pub(super) fn validation_kind(&self) -> &'w Kind {
        storage_version::validation_kind(&self.resource.kind)
    }

    /// The request, as the rules of the kind see it.
    pub(super) fn strategy_context(&self) -> StrategyContext<'w> {
        StrategyContext {
            kind: self.validation_kind(),
            now: self.ctx.now,
            user: &self.ctx.user,
        }
    }

    /// The name in the path; empty for a create.
    pub(super) fn name(&self) -> &'w str {
        &self.ctx.target.name
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.mode() == CommitMode::DryRun
    }

    /// Whether it is committed in the end.
    pub(super) fn mode(&self) -> CommitMode {
        self.options.mode()
    }
}

impl DryRun for WriteOptions {
    fn mode(&self) -> CommitMode {
        self.mode
    }
}

impl DryRun for DeleteOptions {
    fn mode(&self) -> CommitMode {
        self.mode
    }
}
