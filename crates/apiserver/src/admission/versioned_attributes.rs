//! Admission attributes converted to the version that a webhook or policy matches (`VersionedAttributes`).

use std::{borrow::Cow, sync::Arc};

use k3_api::{
    apply::managed,
    custom::Scale,
    decode::DecodeError,
    kinds::{KindRef, Subresource, autoscaling::scale, strategy_of_subresource},
    schema::ObjectType,
    status::Status,
    strategy::{self, Tree, TreeMut, User},
};
use serde_json::{Value, json};

use super::{AdmissionAttributes, Operation};
use crate::{
    custom::CustomResourceConverter,
    registry::{self, RequestContext, Resource},
};

/// The group of webhook and policy configurations. They are exempt from webhooks and policies; otherwise a broken one could not
/// be repaired.
const OWN_GROUP: &str = "admissionregistration.k8s.io";
/// Questions about users and their rights. A webhook that stood in their way could lock everybody out.
const QUESTIONS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// What is asked about.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/conversion.go VersionedAttributes, NewVersionedAttributes
pub(super) struct VersionedAttributes<'a> {
    pub operation: Operation,
    /// The form of the request.
    pub form: VersionedResource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty if it is yet to be made up, and for many at once.
    pub name: String,
    /// Empty for cluster-wide objects; of a namespace, its own name.
    pub namespace: String,
    pub dry_run: bool,
    pub ctx: &'a RequestContext,
    resource: &'a Resource,
    converter: &'a CustomResourceConverter,
}

/// A resource in one of its versions, and which part of it.
#[derive(Clone, Debug)]
pub(super) struct VersionedResource {
    pub whole: KindRef,
    /// The place of the part among those of the whole.
    part: Option<usize>,
}

// --- Operation ---

impl Operation {
    /// Its word in configurations and reviews.
    pub(super) fn word(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

// --- AdmissionAttributes ---

impl AdmissionAttributes<'_> {
    /// The new object; `None` for a delete.
    pub(super) fn new_state(&self) -> Option<&Value> {
        (self.operation != Operation::Delete).then_some(&*self.object)
    }

    /// The object as it is; `None` if there is none.
    pub(super) fn old_state(&self) -> Option<&Value> {
        match self.operation {
            Operation::Delete => Some(&*self.object),
            _ => self.old,
        }
    }

    /// Whether webhooks and policies have no say in it.
    pub(super) fn is_exempt(&self) -> bool {
        let kind = &self.resource.kind;
        let names = (&*kind.group, &*kind.plural);
        &*kind.group == OWN_GROUP || QUESTIONS.contains(&names)
    }
}

// --- VersionedAttributes ---

impl<'a> VersionedAttributes<'a> {
    /// What a request is about.
    pub(super) fn of(attributes: &AdmissionAttributes<'a>, converter: &'a CustomResourceConverter) -> Self {
        let kind = &attributes.resource.kind;
        let target = &attributes.ctx.target;
        let name = if target.name.is_empty() && attributes.operation == Operation::Create {
            attributes.object.at("metadata").text("name")
        } else {
            &target.name
        };
        let is_namespace = kind.group.is_empty() && &*kind.plural == "namespaces";
        VersionedAttributes {
            operation: attributes.operation,
            form: VersionedResource::new(kind.clone(), attributes.subresource),
            subresource: attributes.subresource,
            name: name.to_owned(),
            namespace: if is_namespace { name } else { attributes.namespace }.to_owned(),
            dry_run: attributes.dry_run,
            ctx: attributes.ctx,
            resource: attributes.resource,
            converter,
        }
    }

    /// The other forms that the same objects are served in, with the same part.
    pub(super) fn equivalents(&self) -> impl Iterator<Item = VersionedResource> {
        self.other_kinds()
            .into_iter()
            .map(|whole| VersionedResource::new(whole, self.subresource))
            .filter(|form| self.subresource.is_empty() || form.part.is_some())
    }

    /// The other kinds that the same objects are served as.
    fn other_kinds(&self) -> Vec<KindRef> {
        let whole = &self.form.whole;
        match &self.resource.custom {
            None => registry::others(whole).map(KindRef::from).collect(),
            Some(served) => served
                .versions()
                .filter(|(version, _)| version.served && *version.name != *whole.version)
                .map(|(_, kind)| KindRef::from(Arc::clone(kind)))
                .collect(),
        }
    }

    /// A state of the object in a form.
    pub(super) fn view<'v>(
        &self,
        state: &'v Value,
        form: &VersionedResource,
    ) -> Result<Cow<'v, Value>, Status> {
        if form.is_scale() {
            let scale = match self.scale(form) {
                Some(scale) => scale.read(state)?,
                None => scale::of(&form.whole, state)
                    .ok_or_else(|| Status::internal_error("the kind has no scale that can be shown"))?,
            };
            let normal = form.ty().normalize(&scale);
            return Ok(Cow::Owned(normal.map_or(scale, |decoded| decoded.value)));
        }
        if !form.is_whole() || form.whole.api_version() == state.text("apiVersion") {
            return Ok(Cow::Borrowed(state));
        }
        self.convert(state.clone(), &form.whole).map(Cow::Owned)
    }

    /// Puts back what was changed in a form.
    pub(super) fn put_back(
        &self,
        state: &mut Value,
        view: Value,
        form: &VersionedResource,
    ) -> Result<(), Status> {
        if form.is_scale() {
            match self.scale(form) {
                Some(scale) => scale.write(state, &view)?,
                None => scale::set(state, &view),
            }
            return Ok(());
        }
        let said = state.text("apiVersion");
        *state = match self.find(said).filter(|_| form.is_whole()) {
            Some(to) => self.convert(view, &to)?,
            None => view,
        };
        Ok(())
    }

    /// An object of the whole as one of its kinds.
    fn convert(&self, object: Value, to: &KindRef) -> Result<Value, Status> {
        let said = object.text("apiVersion");
        if to.api_version() == said {
            return Ok(object);
        }
        match &self.resource.custom {
            Some(served) => self
                .converter
                .convert_now(served, object, &to.api_version())
                .map_err(Status::internal_error),
            None => Ok(match self.find(said) {
                Some(from) => registry::convert(object, &from, to),
                None => object,
            }),
        }
    }

    /// A stored object of any resource in the version that the resource names.
    pub(super) fn convert_stored(&self, object: Value, resource: &Resource) -> Result<Value, Status> {
        match &resource.custom {
            Some(served) => self
                .converter
                .convert_now(served, object, &resource.kind.api_version())
                .map_err(Status::internal_error),
            None => Ok(registry::convert(object, &resource.stored, &resource.kind)),
        }
    }

    /// Where custom objects keep their scale.
    fn scale(&self, form: &VersionedResource) -> Option<&Scale> {
        let served = self.resource.custom.as_ref()?;
        served.definition.version(&form.whole.version)?.scale.as_ref()
    }

    /// The kind of the whole object that an `apiVersion` names.
    fn find(&self, api_version: &str) -> Option<KindRef> {
        std::iter::once(self.form.whole.clone())
            .chain(self.other_kinds())
            .find(|kind| kind.api_version() == api_version)
    }

    /// The request, as reviews and expressions have it, but for the objects.
    pub(super) fn request(&self, form: &VersionedResource) -> Value {
        let mut request = json!({
            "kind": form.shown_kind(),
            "resource": form.shown_resource(),
            "requestKind": self.form.shown_kind(),
            "requestResource": self.form.shown_resource(),
            "operation": self.operation.word(),
            "userInfo": self.user(),
            "dryRun": self.dry_run,
            "options": self.options(),
        });
        for (name, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                request[name] = text.into();
            }
        }
        request
    }

    /// Who asks, as reviews have it.
    pub(super) fn user(&self) -> Value {
        user(&self.ctx.user)
    }

    /// The options of the request, as reviews have them; `null` where there are none.
    pub(super) fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => return delete_options(self.ctx),
            Operation::Connect => return Value::Null,
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let query = &self.ctx.query;
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            options.set("dryRun", dry_run);
        }
        for name in ["fieldManager", "fieldValidation"] {
            let said = query.text(name);
            if !said.is_empty() {
                options.set(name, said);
            }
        }
        options
    }
}

/// The object after a change, with the record of who set what as it was if the change has spoilt it.
pub(super) fn keep_record(before: &Value, mut after: Value, warnings: &mut Vec<String>) -> Value {
    let record = before.at("metadata").at("managedFields");
    if after.at("metadata").at("managedFields") == record {
        return after;
    }
    if let Err(error) = managed::check(&after) {
        after
            .ensure_object("metadata")
            .copy_from("managedFields", before.at("metadata"));
        warnings.push(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
             admission controller; please fix your requests: {error}"
        ));
    }
    after
}

fn user(user: &User) -> Value {
    let mut info = json!({});
    for (name, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            info.set(name, value.as_str());
        }
    }
    if !user.groups.is_empty() {
        info.set("groups", user.groups.clone());
    }
    for (key, values) in &user.extra {
        info.ensure_object("extra").set(key, values.clone());
    }
    info
}

/// The options of a delete: from the body if it has one, else from the query.
fn delete_options(ctx: &RequestContext) -> Value {
    let mut options = registry::delete_body(ctx).ok().flatten().unwrap_or_else(|| {
        let query = &ctx.query;
        let mut options = json!({});
        if let Ok(Some(seconds)) = query.int("gracePeriodSeconds") {
            options.set("gracePeriodSeconds", seconds);
        }
        if let Some(orphan) = query.flag("orphanDependents") {
            options.set("orphanDependents", orphan);
        }
        if query.has("propagationPolicy") {
            options.set("propagationPolicy", query.text("propagationPolicy"));
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            options.set("dryRun", dry_run);
        }
        options
    });
    options.set("kind", "DeleteOptions");
    options.set("apiVersion", "meta.k8s.io/v1");
    options
}

// --- VersionedResource ---

impl VersionedResource {
    fn new(whole: KindRef, part: &str) -> Self {
        let part = whole.subresources.iter().position(|known| known.name == part);
        VersionedResource { whole, part }
    }

    fn part(&self) -> Option<&Subresource> {
        self.whole.subresources.get(self.part?)
    }

    /// The group, version and kind of its objects.
    pub(super) fn kind(&self) -> (&str, &str, &str) {
        let whole = &self.whole;
        match self.part() {
            Some(part) => (&part.group, &part.version, &part.kind),
            None => (&whole.group, &whole.version, &whole.kind),
        }
    }

    /// The kind, as reviews have it.
    pub(super) fn shown_kind(&self) -> Value {
        let (group, version, kind) = self.kind();
        json!({"group": group, "version": version, "kind": kind})
    }

    /// The resource, as reviews have it.
    pub(super) fn shown_resource(&self) -> Value {
        let whole = &self.whole;
        json!({"group": &*whole.group, "version": &*whole.version, "resource": &*whole.plural})
    }

    /// An object in the normal form of its type, with what it leaves out; or why it is none.
    pub(super) fn complete(&self, object: &Value) -> Result<(Value, Value), DecodeError> {
        let normal = self.ty().normalize(object)?.value;
        let mut full = normal.clone();
        match self.part() {
            Some(part) if !self.is_whole() => {
                if let Some(rules) = strategy_of_subresource(part) {
                    rules.set_defaults(&mut full);
                }
            }
            _ => strategy::for_kind(&self.whole).set_defaults(&mut full),
        }
        Ok((normal, full))
    }

    /// The type of its objects.
    pub(super) fn ty(&self) -> &ObjectType {
        self.part().map_or(&self.whole.ty, |part| &part.ty)
    }

    /// Whether its objects are those of the resource itself.
    fn is_whole(&self) -> bool {
        self.part().is_none_or(|part| part.kind == self.whole.kind)
    }

    fn is_scale(&self) -> bool {
        self.part().is_some_and(|part| part.name == "scale")
    }
}

impl PartialEq for VersionedResource {
    fn eq(&self, other: &Self) -> bool {
        let one = &self.whole;
        let two = &other.whole;
        (&one.group, &one.version, &one.plural, self.part)
            == (&two.group, &two.version, &two.plural, other.part)
    }
}
