//! The scale subresource of custom resources (`specReplicasPath`, `statusReplicasPath`, `labelSelectorPath`).

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go ScaleREST, scaleFromCustomResource, scaleUpdatedObjectInfo
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go ValidateScaleSpec, ValidateScaleStatus

use serde_json::{Value, json};

use crate::{
    field::{BadValue, Error, Path},
    go,
    status::Status,
    strategy::{ErrorList, Tree, TreeMut},
};

/// What of the metadata of an object its scale carries.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// Where the parts of a scale are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many are asked for, such as `.spec.replicas`.
    pub spec_path: String,
    /// How many there are.
    pub status_path: String,
    /// Which they are, as the text of a label selector.
    pub selector_path: Option<String>,
}

/// A field that has another type than a scale needs, in upstream's words.
#[derive(Debug, thiserror::Error)]
#[error(".{path} accessor error: {value} is of the type {found}, expected {expected}")]
struct AccessorError {
    path: String,
    value: String,
    found: String,
    expected: &'static str,
}

/// A scale, and where its number is from.
struct ReadScale {
    scale: Value,
    /// Whether the object has the number that is asked for.
    has_replicas: bool,
}

// --- Scale ---

impl Scale {
    pub(super) fn read_from(scale: &Value) -> Scale {
        let text = |name: &str| scale.text(name).to_owned();
        Scale {
            spec_path: text("specReplicasPath"),
            status_path: text("statusReplicasPath"),
            selector_path: Some(text("labelSelectorPath")).filter(|path| !path.is_empty()),
        }
    }

    /// The scale of an object, to be shown.
    pub fn read(&self, object: &Value) -> Result<Value, Status> {
        let read = self
            .of(object)
            .map_err(|error| Status::unknown(error.to_string()))?;
        if !read.has_replicas {
            return Err(Status::internal_error(format!(
                "the spec replicas field {} does not exist",
                go::quote(&self.spec_path)
            )));
        }
        Ok(read.scale)
    }

    /// The scale of an object, to be changed: a number that no client sends stands for one that is not there.
    pub fn before(&self, object: &Value) -> Result<Value, Status> {
        let mut read = self
            .of(object)
            .map_err(|error| Status::unknown(error.to_string()))?;
        if !read.has_replicas {
            read.scale
                .ensure_object("spec")
                .set("replicas", i64::from(i32::MIN));
        }
        Ok(read.scale)
    }

    /// Gives an object the number a scale asks for, and the resourceVersion it was read at, if it names one.
    pub fn write(&self, object: &mut Value, scale: &Value) -> Result<(), Status> {
        let replicas = scale.at("spec").int_or_zero("replicas");
        if replicas == i64::from(i32::MIN) {
            return Err(Status::bad_request(format!(
                "the spec replicas field {} cannot be empty",
                go::quote(&self.spec_path)
            )));
        }
        let names: Vec<_> = split(&self.spec_path).collect();
        let mut at = &mut *object;
        for (index, name) in names.iter().enumerate() {
            if index + 1 == names.len() {
                at.set(name, replicas);
                break;
            }
            if at.get(*name).is_some_and(|inner| !inner.is_object()) {
                let path = names[..=index].join(".");
                let text = format!("value cannot be set because .{path} is not a map[string]interface{{}}");
                return Err(Status::unknown(text));
            }
            at = at.ensure_object(name);
        }
        let version = scale.at("metadata").text("resourceVersion");
        if !version.is_empty() {
            object.ensure_object("metadata").set("resourceVersion", version);
        }
        Ok(())
    }

    /// The scale of an object that was written.
    pub fn of_written(&self, object: &Value) -> Result<Value, Status> {
        let read = self
            .of(object)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(read.scale)
    }

    fn of(&self, object: &Value) -> Result<ReadScale, AccessorError> {
        let wanted = number(object, &self.spec_path)?;
        let actual = number(object, &self.status_path)?;
        let selector = match &self.selector_path {
            Some(path) => text(object, path)?,
            None => "",
        };
        let mut scale = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {},
            "spec": {},
            "status": {"replicas": narrow(actual.unwrap_or(0))},
        });
        let metadata = scale.ensure_object("metadata");
        for name in METADATA {
            metadata.copy_from(name, object.at("metadata"));
        }
        if let Some(wanted) = wanted.filter(|wanted| narrow(*wanted) != 0) {
            scale.ensure_object("spec").set("replicas", narrow(wanted));
        }
        if !selector.is_empty() {
            scale.ensure_object("status").set("selector", selector);
        }
        Ok(ReadScale {
            scale,
            has_replicas: wanted.is_some(),
        })
    }

    /// What is wrong with the number that is asked for.
    pub(super) fn validate_spec(&self, object: &Value, errors: &mut ErrorList) {
        validate_replicas(object, &self.spec_path, errors);
    }

    /// What is wrong with the number there are, and with the selector.
    pub(super) fn validate_status(&self, object: &Value, errors: &mut ErrorList) {
        validate_replicas(object, &self.status_path, errors);
        if let Some(path) = &self.selector_path
            && let Err(error) = text(object, path)
        {
            errors.push(Error::invalid(&Path::new(path), "", error.to_string()));
        }
    }
}

/// The lower 32 bits, as programs keep such a number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "that is how such a number is kept"
)]
fn narrow(number: i64) -> i64 {
    i64::from(number as i32)
}

fn validate_replicas(object: &Value, path: &str, errors: &mut ErrorList) {
    let at = Path::new(path);
    match number(object, path) {
        Err(error) => errors.push(Error::invalid(&at, BadValue::Integer(0), error.to_string())),
        Ok(Some(number)) if number < 0 => {
            errors.push(Error::invalid(&at, number, "should be a non-negative integer"));
        }
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(Error::invalid(&at, number, detail));
        }
        Ok(_) => {}
    }
}

fn number(object: &Value, path: &str) -> Result<Option<i64>, AccessorError> {
    match find(object, path)? {
        None => Ok(None),
        Some(value) => value
            .as_i64()
            .map(Some)
            .ok_or_else(|| wrong(path, value, "int64")),
    }
}

fn text<'v>(object: &'v Value, path: &str) -> Result<&'v str, AccessorError> {
    match find(object, path)? {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| wrong(path, value, "string")),
    }
}

fn wrong(path: &str, value: &Value, expected: &'static str) -> AccessorError {
    let path: Vec<_> = split(path).collect();
    let found = match value {
        Value::Null => "<nil>",
        value => go::type_name(value),
    };
    AccessorError {
        path: path.join("."),
        value: go::plain(value),
        found: found.to_owned(),
        expected,
    }
}

fn find<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, AccessorError> {
    let names: Vec<_> = split(path).collect();
    let mut value = object;
    for (index, name) in names.iter().enumerate() {
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(*name) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            other => {
                let path = names[..=index].join(".");
                return Err(wrong(&path, other, "map[string]interface{}"));
            }
        }
    }
    Ok(Some(value))
}

fn split(path: &str) -> std::str::Split<'_, char> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}
