//! The `scale` subresource.

use k3_api::{
    apply::managed,
    custom::Scale,
    kinds::{Kind, autoscaling::scale, strategy_of_subresource},
    status::{GroupResource, Status},
    strategy::{StrategyContext, Tree, TreeMut},
};
use serde_json::Value;

use super::validate_rules;
use crate::{
    http::HttpResponse,
    registry::{
        Registry, RequestContext, Resource,
        body::{self, ExpectedKind},
        conversion::shown,
        create::match_namespace,
        freshness::read_index,
        managed_fields,
        patch::{Patch, conflict_policy},
        pending_write::PendingWrite,
        response,
        update::{UpdateSource, match_name},
    },
    request::{WriteOptions, WriteVerb},
};

/// A scale that is to be.
pub(in crate::registry) enum NewScale {
    /// The client sent it.
    Put(Value),
    /// It is made from the one there is.
    Patch(Patch),
}

/// Where all built-in kinds that can be scaled keep their replicas.
const REPLICAS: &str = "spec.replicas";

// --- Registry ---

impl Registry {
    /// Reads the scale of an object.
    // upstream: pkg/registry/apps/deployment/storage/storage.go Get; ScaleREST
    pub(crate) async fn get_scale(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        read_index(&self.caches).await?;
        let key = resource.key(&ctx.target.namespace, &ctx.target.name)?;
        let object = resource
            .cache
            .get(&key)
            .ok_or_else(|| resource.not_found(&ctx.target.name))?;
        let tree = shown(&self.converter, object.tree(), &resource).await?;
        if let Some(custom) = custom_scale(&resource) {
            return answer_as(&custom.read(&tree)?, ctx, &[]);
        }
        answer_scale(&tree, ctx, &resource, &[])
    }

    /// Replaces the scale of an object by the one in the body.
    // upstream: pkg/registry/apps/deployment/storage/storage.go Update; ScaleREST
    pub(crate) async fn update_scale(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let options = WriteOptions::read(&ctx.query, WriteVerb::Update, &ctx.agent)?;
        let subresource = ctx.target.subresource().expect("a scale is a subresource");
        let expected = ExpectedKind {
            group: &subresource.group,
            version: &subresource.version,
            kind: &subresource.kind,
            ty: &subresource.ty,
        };
        let mut write = PendingWrite::new(ctx, &resource, &options);
        let mut scale = body::read(ctx, expected, &options, &mut write.warnings)?;
        match_name(&scale, write.name())?;
        match_namespace(&mut scale, &resource, &ctx.target.namespace)?;
        self.change_scale(write, NewScale::Put(scale)).await
    }

    /// Applies the patch in the body to the scale of an object.
    pub(crate) async fn patch_scale(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let options = WriteOptions::read(&ctx.query, Patch::writing(ctx)?, &ctx.agent)?;
        let mut write = PendingWrite::new(ctx, &resource, &options);
        let patch = Patch::read(ctx, &options, &mut write.warnings)?;
        self.change_scale(write, NewScale::Patch(patch)).await
    }

    async fn change_scale(
        &self,
        mut write: PendingWrite<'_>,
        scale: NewScale,
    ) -> Result<HttpResponse, Status> {
        let source = UpdateSource::Scale(scale);
        let changed = self.change(&mut write, &source).await?;
        let tree = changed.into_outcome().into_tree(write.resource);
        if let Some(custom) = custom_scale(write.resource) {
            return answer_as(&custom.of_written(&tree)?, write.ctx, &write.warnings.0);
        }
        answer_scale(&tree, write.ctx, write.resource, &write.warnings.0)
    }
}

fn answer_scale(
    object: &Value,
    ctx: &RequestContext,
    resource: &Resource,
    warnings: &[String],
) -> Result<HttpResponse, Status> {
    let scale = scale::of(&resource.kind, object).ok_or_else(|| no_scale(resource))?;
    answer_as(&scale, ctx, warnings)
}

/// Where the scale of custom objects is found.
fn custom_scale(resource: &Resource) -> Option<&Scale> {
    let served = resource.custom.as_ref()?;
    served.definition.version(&resource.kind.version)?.scale.as_ref()
}

fn answer_as(scale: &Value, ctx: &RequestContext, warnings: &[String]) -> Result<HttpResponse, Status> {
    let subresource = ctx.target.subresource().expect("a scale is a subresource");
    let mut answer = response::value(
        200,
        &response::normal(scale, &subresource.ty),
        &subresource.ty,
        ctx,
    )?;
    response::warn(&mut answer, warnings);
    Ok(answer)
}

/// Where the versions of a kind keep their replicas.
fn replicas(resource: &Resource) -> Vec<(String, String)> {
    let Some(served) = &resource.custom else {
        return vec![(resource.kind.api_version(), REPLICAS.to_owned())];
    };
    let versions = served.versions();
    versions
        .filter_map(|(version, kind)| {
            let way = version.scale.as_ref()?.spec_path.trim_start_matches('.');
            Some((kind.api_version(), way.to_owned()))
        })
        .collect()
}

fn no_scale(resource: &Resource) -> Status {
    Status::internal_error(format!(
        "the selector of this {} cannot be read",
        resource.kind.kind
    ))
}

// --- NewScale ---

impl NewScale {
    /// The object with the scale it is to have.
    pub(in crate::registry) fn make(
        &self,
        old: &Value,
        write: &mut PendingWrite<'_>,
    ) -> Result<Value, Status> {
        let ctx = write.ctx;
        let resource = write.resource;
        let subresource = ctx.target.subresource().expect("a scale is a subresource");
        let version = resource.kind.api_version();
        let custom = custom_scale(resource);
        let ways = replicas(resource);
        let ways: Vec<(&str, Vec<&str>)> = ways
            .iter()
            .map(|(version, way)| (version.as_str(), way.split('.').collect()))
            .collect();
        let paths: Vec<(&str, &[&str])> = ways
            .iter()
            .map(|(version, way)| (*version, way.as_slice()))
            .collect();
        let paths: managed::ReplicasPaths<'_> = &paths;
        let mut live = match custom {
            Some(custom) => custom.before(old)?,
            None => scale::of(&resource.kind, old).ok_or_else(|| no_scale(resource))?,
        };
        managed::scale_to_subresource(old, &mut live, paths).map_err(Status::internal_error)?;
        let kind = Kind::for_subresource(subresource, &resource.kind);
        let mut new = match self {
            NewScale::Put(scale) => scale.clone(),
            NewScale::Patch(Patch::Apply(configuration)) => {
                let options = write.options;
                let applied =
                    managed_fields::with_subject(&kind, resource.strategy(), "scale", None, |subject| {
                        let force = conflict_policy(options);
                        subject.apply(Some(&live), configuration, &options.manager, force, ctx.now)
                    });
                let applied = applied.map_err(|error| Patch::not_applied(&error))?;
                response::normal(&applied, &subresource.ty)
            }
            NewScale::Patch(patch) => patch.make_as(&live, &kind, write)?,
        };
        // Custom objects are validated as a whole, with the new scale.
        if custom.is_none()
            && let Some(rules) = strategy_of_subresource(subresource)
        {
            rules.set_defaults(&mut new);
            let at = StrategyContext {
                kind: &resource.kind,
                now: ctx.now,
                user: &ctx.user,
            };
            let grouped = GroupResource::new(&subresource.group, &subresource.kind);
            validate_rules(rules, &new, &at, (grouped, new.at("metadata").text("name")))?;
        }
        if !matches!(self, NewScale::Patch(Patch::Apply(_))) {
            managed_fields::with_subject(&kind, resource.strategy(), "scale", None, |subject| {
                subject.track(Some(&live), &mut new, &write.options.manager, ctx.now);
            });
        }
        let mut object = old.clone();
        match custom {
            Some(custom) => custom.write(&mut object, &new)?,
            None => scale::set(&mut object, &new),
        }
        managed::scale_to_parent(&new, &mut object, &version, paths).map_err(Status::internal_error)?;
        if object.at("metadata").text("resourceVersion").is_empty() {
            object
                .ensure_object("metadata")
                .copy_from("resourceVersion", old.at("metadata"));
        }
        Ok(object)
    }
}
