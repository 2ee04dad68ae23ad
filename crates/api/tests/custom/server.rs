//! What of a server the rules need: definitions and objects by name, and the order of a request.

use std::{collections::HashMap, sync::Arc};

use k3_api::{
    custom::Definition,
    decode,
    kinds::{Kind, Persistence, Scope, builtin},
    patch,
    schema::ObjectType,
    status::Status,
    strategy::{self, StrategyContext, Tree, TreeMut, User, WrittenPart},
    time::Time,
};
use serde_json::{Value, json};

/// Definitions and objects.
#[derive(Default)]
pub(crate) struct Server {
    crd: Value,
    definition: Option<Definition>,
    objects: HashMap<String, Value>,
}

/// The object in a response and its warnings, or the error.
pub(crate) type ObjectResponse = Result<(Value, Vec<String>), Status>;

fn now() -> Time {
    Time::parse("2024-01-01T00:00:00Z").unwrap()
}

impl Server {
    /// Installs a definition.
    pub(crate) fn define(&mut self, crd: &Value) -> Result<Vec<String>, Status> {
        let kind = builtin()
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap();
        let mut object = kind
            .ty
            .normalize(crd)
            .map_err(|error| Status::bad_request(error.to_string()))?
            .value;
        let user = User::default();
        let at = StrategyContext {
            kind,
            now: now(),
            user: &user,
        };
        strategy::for_kind(kind).set_defaults(&mut object);
        identify(&mut object);
        let warnings = strategy::create(&mut object, &at)?;
        object.ensure_object("metadata").set("resourceVersion", "1");
        let established = json!([{"type": "Established", "status": "True"}]);
        object.ensure_object("status").set("conditions", established);
        self.definition = Some(Definition::read(&object).unwrap());
        self.crd = object;
        Ok(warnings)
    }

    /// Changes the definition.
    pub(crate) fn redefine(&mut self, change: Value) -> Result<(), Status> {
        let kind = builtin()
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap();
        let mut object = patch::merge::apply(self.crd.clone(), change)?;
        let user = User::default();
        let at = StrategyContext {
            kind,
            now: now(),
            user: &user,
        };
        strategy::for_kind(kind).set_defaults(&mut object);
        strategy::update(&mut object, &self.crd, WrittenPart::Object, &at)?;
        self.definition = Some(Definition::read(&object).unwrap());
        self.crd = object;
        Ok(())
    }

    pub(crate) fn definition(&self) -> &Definition {
        self.definition.as_ref().unwrap()
    }

    pub(crate) fn crd(&self) -> &Value {
        &self.crd
    }

    /// The kind of a version.
    fn kind(&self, version: &str) -> Kind {
        let definition = self.definition();
        let rules = Arc::clone(&definition.version(version).unwrap().strategy);
        Kind {
            group: definition.group.clone().into(),
            version: version.to_owned().into(),
            kind: definition.names.kind.clone().into(),
            plural: definition.names.plural.clone().into(),
            singular: definition.names.singular.clone().into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: definition.scope,
            persistence: Persistence::Stored,
            verbs: Vec::new(),
            subresources: Vec::new(),
            ty: ObjectType::Custom(Arc::clone(&rules) as _),
            strategy: Some(rules),
        }
    }

    fn read(kind: &Kind, object: &Value) -> ObjectResponse {
        let body = serde_json::to_vec(object).unwrap();
        let decoded = match kind.ty.json(&body) {
            Ok(decoded) => decoded,
            Err(error) => {
                let version = &kind.version;
                let kind = &kind.kind;
                let text = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}");
                return Err(Status::bad_request(text));
            }
        };
        let warnings = decoded.strict_errors.warnings().collect();
        let mut object = decoded.value;
        strategy::for_kind(kind).set_defaults(&mut object);
        Ok((object, warnings))
    }

    pub(crate) fn create(&mut self, version: &str, object: &Value) -> ObjectResponse {
        let kind = self.kind(version);
        let (mut object, mut warnings) = Self::read(&kind, object)?;
        let user = User::default();
        let at = StrategyContext {
            kind: &kind,
            now: now(),
            user: &user,
        };
        if kind.scope == Scope::Namespaced {
            object.ensure_object("metadata").set_default("namespace", "ns");
        }
        identify(&mut object);
        warnings.extend(strategy::create(&mut object, &at)?);
        strategy::for_kind(&kind).set_defaults(&mut object);
        object.ensure_object("metadata").set("resourceVersion", "1");
        let name = object.at("metadata").text("name").to_owned();
        self.objects.insert(name, object.clone());
        Ok((object, warnings))
    }

    pub(crate) fn patch(&mut self, version: &str, name: &str, part: &str, change: Value) -> ObjectResponse {
        let kind = self.kind(version);
        let old = self.objects[name].clone();
        let scale = self.definition().version(version).unwrap().scale.clone();
        let (mut new, mut warnings) = if let ("scale", Some(scale)) = (part, &scale) {
            let changed = patch::merge::apply(scale.before(&old)?, change)?;
            let mut new = old.clone();
            scale.write(&mut new, &changed)?;
            (new, Vec::new())
        } else {
            Self::read(&kind, &patch::merge::apply(old.clone(), change)?)?
        };
        let user = User::default();
        let at = StrategyContext {
            kind: &kind,
            now: now(),
            user: &user,
        };
        let part = if part == "status" {
            WrittenPart::Status
        } else {
            WrittenPart::Object
        };
        warnings.extend(strategy::update(&mut new, &old, part, &at)?);
        strategy::for_kind(&kind).set_defaults(&mut new);
        self.objects.insert(name.to_owned(), new.clone());
        Ok((new, warnings))
    }

    /// The scale of an object.
    pub(crate) fn scale(&self, version: &str, name: &str) -> Result<Value, Status> {
        let scale = self.definition().version(version).unwrap().scale.clone().unwrap();
        scale.read(&self.objects[name])
    }

    /// The cells of a table of all objects.
    pub(crate) fn rows(&self, version: &str) -> Vec<Vec<Value>> {
        let rules = &self.definition().version(version).unwrap().strategy;
        let mut names: Vec<_> = self.objects.keys().collect();
        names.sort();
        let rows = names
            .iter()
            .map(|name| strategy::RestStrategy::row(&**rules, &self.objects[*name], now()).cells);
        rows.collect()
    }
}

fn identify(object: &mut Value) {
    let metadata = object.ensure_object("metadata");
    metadata.set_default("uid", "u");
    metadata.set_default("creationTimestamp", "2024-01-01T00:00:00Z");
    let prefix = metadata.text("generateName").to_owned();
    if !prefix.is_empty() {
        metadata.set_default("name", format!("{prefix}abcde"));
    }
}

/// A tree from JSON text.
pub(crate) fn tree(text: &str) -> Value {
    decode::untyped(text.as_bytes()).unwrap().value
}
