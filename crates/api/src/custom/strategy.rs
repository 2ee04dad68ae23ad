//! The REST strategy of one version of a custom resource.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go customResourceStrategy, PrepareForCreate, PrepareForUpdate, generateWarningsFromObj
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go customResourceValidator, ValidateTypeMeta, validateKubeFinalizerName

use std::{collections::HashSet, sync::OnceLock};

use serde_json::{Map, Value};

use super::{
    columns::Columns,
    correlation::CorrelatedValue,
    default, expression, listing,
    meta::{self, MalformedMetadata},
    node::{Node, NodeRole},
    prune,
    scale::Scale,
    schema::Schema,
    validate,
};
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, ErrorKind, Path},
    go,
    name::{self, NameFormat},
    schema::{CustomType, SettleError},
    strategy::{Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut},
    time::Time,
    type_schema::TypeSchema,
};

/// The rules of the objects of one version of a definition.
#[derive(Debug)]
pub struct CustomResourceStrategy {
    api_version: String,
    kind: String,
    namespaced: bool,
    has_status: bool,
    scale: Option<Scale>,
    columns: Columns,
    selectable: Vec<SelectableField>,
    schema: Schema,
    /// The rules of the schema, compiled when they are first asked.
    expressions: OnceLock<Option<expression::CompiledRuleTree>>,
    /// Whether fields that no schema knows are kept, as definitions of old could ask for.
    preserves: bool,
}

/// Where an object was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectSource {
    /// A request.
    Request,
    /// Another version.
    Conversion,
    /// The store: what no client would accept today is dropped.
    Storage,
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

// --- CustomResourceStrategy ---

impl CustomResourceStrategy {
    /// What expressions see of objects; `None` if they see nothing.
    pub fn declared(&self) -> Option<k3_cel::DeclType> {
        expression::declare(self.node(), NodeRole::Resource).map(|declared| declared.decl)
    }

    /// The rules of a version of the definition with this spec.
    pub(super) fn new(version: &Value, spec: &Value) -> Self {
        let subresources = version.at("subresources");
        let preserves = spec.flag("preserveUnknownFields");
        let way = |field: &Value| {
            let path = field.text("jsonPath");
            let path = path.strip_prefix('.').unwrap_or(path);
            SelectableField::at(path.split('.').map(str::to_owned).collect())
        };
        CustomResourceStrategy {
            api_version: format!("{}/{}", spec.text("group"), version.text("name")),
            kind: spec.at("names").text("kind").to_owned(),
            namespaced: spec.text("scope") == "Namespaced",
            has_status: subresources.has("status"),
            scale: subresources
                .has("scale")
                .then(|| Scale::read_from(subresources.at("scale"))),
            columns: Columns::read(version),
            selectable: version.items("selectableFields").iter().map(way).collect(),
            schema: Schema::new(version, spec),
            expressions: OnceLock::new(),
            preserves,
        }
    }

    /// Group and version as objects carry them.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The type, for patches and apply.
    pub fn typed(&self) -> &dyn TypeSchema {
        &self.schema
    }

    /// Brings an object into form: metadata as all objects have them, nothing that the schema does not know, no `null`
    /// where that is no value. Gives the paths of the fields that are not known; the error is why it cannot be read.
    pub fn coerce(&self, object: &mut Value, source: ObjectSource) -> Result<Vec<String>, SettleError> {
        let malformed = match source {
            ObjectSource::Storage => MalformedMetadata::Drop,
            ObjectSource::Request | ObjectSource::Conversion => MalformedMetadata::Refuse,
        };
        let mut unknown = Vec::new();
        if let Some(metadata) = object.at_mut("metadata") {
            let found = meta::settle(metadata, malformed)?;
            unknown.extend(found.into_iter().map(|path| format!("metadata.{path}")));
        }
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        let given = object
            .text("apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        if given != group || object.text("kind") != self.kind {
            return Ok(unknown);
        }
        let node = self.node();
        if !self.preserves {
            unknown.extend(prune::prune(object, node));
            self.prune_nulls(object);
        }
        let unknown_embedded = meta::coerce(object, node, NodeRole::Field, malformed, &Path::NIL);
        unknown.extend(unknown_embedded?);
        if source == ObjectSource::Storage
            && let Some(metadata) = object.at_mut("metadata")
            && metadata.int_or_zero("generation") == 0
        {
            metadata.set("generation", 1);
        }
        Ok(unknown)
    }

    pub(super) fn node(&self) -> &Node {
        self.schema.node()
    }

    /// The metadata is no business of the schema.
    fn prune_nulls(&self, object: &mut Value) {
        let metadata = object.remove("metadata");
        prune::prune_nulls(object, Some(self.node()));
        if let Some(metadata) = metadata {
            object.set("metadata", metadata);
        }
    }

    /// What is wrong with kind and apiVersion. They are validated before anything else, and then alone.
    fn validate_type(&self, object: &Value, errors: &mut ErrorList) -> bool {
        let wrong: Vec<_> = [("kind", &self.kind), ("apiVersion", &self.api_version)]
            .into_iter()
            .filter(|(name, wanted)| object.text(name) != wanted.as_str())
            .map(|(name, wanted)| {
                Error::invalid(&Path::new(name), object.text(name), format!("must be {wanted}"))
            })
            .collect();
        let good = wrong.is_empty();
        if !good {
            *errors = wrong.into();
        }
        good
    }

    /// What is wrong with the parts that the schema names objects or lists of their own kind.
    fn validate_embedded(&self, object: &Value, errors: &mut ErrorList) {
        let Value::Object(fields) = object else {
            return;
        };
        // The metadata of the object itself is validated for all kinds alike.
        for (name, value) in fields.iter().filter(|(name, _)| *name != "metadata") {
            if let Some(property) = self.node().property(name) {
                meta::validate(value, property, NodeRole::Field, &Path::new(name), errors);
            }
        }
    }

    /// Asks the rules of the schema, unless something is wrong that keeps them from being asked. Gives what is wrong with
    /// parts that did not change.
    fn ask(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) -> ErrorList {
        let tree = self
            .expressions
            .get_or_init(|| expression::CompiledRuleTree::of(self.node(), NodeRole::Resource));
        let Some(tree) = tree else {
            return ErrorList::new();
        };
        if errors.is_full() || errors.iter().any(is_blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                errors to complete validation";
            errors.push(Error::invalid(&Path::NIL, Value::Null, detail));
            return ErrorList::new();
        }
        let correlated = old.map(|old| CorrelatedValue {
            new,
            old,
            node: self.node(),
        });
        expression::validate(tree, self.node(), (new, old), correlated, &Path::NIL, errors)
    }

    /// What rules say of parts that did not change, as warnings.
    fn tolerated(&self, new: &Value, old: &Value) -> Vec<String> {
        let tolerated = self.ask(new, Some(old), &mut ErrorList::new());
        tolerated.iter().map(ToString::to_string).collect()
    }

    fn repeated(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        listing::validate(object, self.node(), &Path::NIL, &mut errors);
        errors
    }
}

impl CustomType for CustomResourceStrategy {
    fn typed(&self) -> &dyn TypeSchema {
        &self.schema
    }

    fn settle(&self, object: &mut Value) -> Result<Vec<String>, SettleError> {
        self.coerce(object, ObjectSource::Request)
    }
}

impl RestStrategy for CustomResourceStrategy {
    fn name_format(&self) -> NameFormat {
        NameFormat::Subdomain
    }

    fn set_defaults(&self, object: &mut Value) {
        default::fill(object, self.node());
    }

    fn prepare_for_create(&self, object: &mut Value, _at: &StrategyContext<'_>) {
        if self.has_status {
            object.remove("status");
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        if self.has_status {
            new.copy_from("status", old);
        }
    }

    /// All but the status stays, the metadata too.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        let mut whole = old.clone();
        whole.copy_from("status", new);
        let managed = new.at("metadata").clone();
        whole
            .ensure_object("metadata")
            .copy_from("managedFields", &managed);
        *new = whole;
    }

    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        if self.validate_type(object, errors) {
            validate::validate(object, self.node(), &Path::NIL, errors);
            if let Some(scale) = &self.scale {
                scale.validate_spec(object, errors);
                scale.validate_status(object, errors);
            }
        }
        self.validate_embedded(object, errors);
        errors.extend(self.repeated(object));
        self.ask(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        if self.validate_type(new, errors) {
            let node = self.node();
            validate::validate_update(new, Some(old), (node, node), &Path::NIL, errors);
            if let Some(scale) = &self.scale {
                scale.validate_spec(new, errors);
                scale.validate_status(new, errors);
            }
        }
        self.validate_embedded(new, errors);
        if self.repeated(old).is_empty() {
            errors.extend(self.repeated(new));
        }
        self.ask(new, Some(old), errors);
    }

    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        if self.validate_type(new, errors) {
            if let (Some(status), Some(node)) = (new.get("status"), self.node().property("status")) {
                let whole = CorrelatedValue {
                    new,
                    old,
                    node: self.node(),
                };
                let before = whole.key("status").map(|correlated| correlated.old);
                validate::validate_update(status, before, (node, node), &Path::new("status"), errors);
            }
            if let Some(scale) = &self.scale {
                scale.validate_status(new, errors);
            }
        }
        let repeated = self.repeated(new);
        if !repeated.is_empty() && self.repeated(old).is_empty() {
            errors.extend(repeated);
        }
        self.ask(new, Some(old), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known: HashSet<_> = old.map_or_else(HashSet::new, |old| {
            old.at("metadata").texts("finalizers").collect()
        });
        let mut added: Vec<_> = new
            .at("metadata")
            .texts("finalizers")
            .filter(|name| !known.contains(name))
            .collect();
        added.sort_unstable();
        added.dedup();
        let tolerated = old.map_or_else(Vec::new, |old| self.tolerated(new, old));
        tolerated
            .into_iter()
            .chain(added.into_iter().flat_map(finalizer_warnings))
            .collect()
    }

    fn status_warnings(&self, new: &Value, old: &Value) -> Vec<String> {
        self.tolerated(new, old)
    }

    fn has_generation(&self) -> bool {
        true
    }

    /// Anything but the metadata.
    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        let (Value::Object(new), Value::Object(old)) = (new, old) else {
            return false;
        };
        let count = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key("metadata"));
        let changed = |(name, value): (&String, &Value)| name != "metadata" && old.get(name) != Some(value);
        count(new) != count(old) || new.iter().any(changed)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let fields: &[&[&str]] = match subresource {
            "status" => &[&["metadata"], &["spec"]],
            _ if self.has_status => &[&["status"]],
            _ => return Some(ResetFields::Nothing),
        };
        Some(ResetFields::Fields(FieldSet::of_fields(fields)))
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.selectable
    }

    fn selects_by_namespace(&self) -> bool {
        self.namespaced
    }

    fn unsupported_field_label(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    fn columns(&self) -> &[Column] {
        &self.columns.heads
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        self.columns.row(object, now)
    }
}

/// Whether errors keep the rules of a schema from being asked: what is of another type cannot be read.
fn is_blocking(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let warning = |message: &str| format!("metadata.finalizers: {}: {message}", go::quote(finalizer));
    let mut warnings: Vec<_> = name::validate_label_key(finalizer)
        .iter()
        .map(|message| warning(message))
        .collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
