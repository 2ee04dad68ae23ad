//! What becomes of records, write by write.

use serde_json::{Value, json};

use super::*;
use crate::{
    apply::{
        FieldSet,
        typed::sample::{Sample, deployment},
    },
    time::Time,
};

mod applying;
mod moving;
mod updating;

/// One object, and the writes to it.
struct ApplyFixture {
    typed: Sample,
    blank: Value,
    reset: ResetFields,
    live: Option<Value>,
    clock: i64,
}

impl ApplyFixture {
    fn new() -> Self {
        Self {
            typed: deployment(),
            blank: json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {}}),
            reset: ResetFields::Fields(FieldSet::of_fields(&[&["status"]])),
            live: None,
            clock: 0,
        }
    }

    fn subject<'s>(&'s self, subresource: &'s str) -> FieldManager<'s> {
        FieldManager {
            api_version: "apps/v1",
            kind: "Deployment",
            subresource,
            typed: &self.typed,
            blank: &self.blank,
            reset: &self.reset,
            versions: &SingleVersion,
        }
    }

    /// A configuration with these fields.
    fn configuration(fields: Value) -> Value {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}});
        let Value::Object(fields) = fields else {
            panic!("fields are an object")
        };
        for (name, value) in fields {
            match (object.get_mut(&name).and_then(Value::as_object_mut), value) {
                (Some(there), Value::Object(more)) => there.extend(more),
                (_, value) => object[name] = value,
            }
        }
        object
    }

    fn try_apply(
        &mut self,
        manager: &str,
        force: ApplyConflictPolicy,
        fields: Value,
    ) -> Result<&Value, ApplyError> {
        self.clock += 1;
        let configuration = Self::configuration(fields);
        let now = Time::from_unix(self.clock, 0);
        let object = self
            .subject("")
            .apply(self.live.as_ref(), &configuration, manager, force, now)?;
        Ok(self.store(object))
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, fields: Value) -> &Value {
        self.try_apply(manager, ApplyConflictPolicy::No, fields).unwrap()
    }

    #[track_caller]
    fn conflicts(&mut self, manager: &str, fields: Value) -> (String, Vec<ConflictCause>) {
        match self.try_apply(manager, ApplyConflictPolicy::No, fields) {
            Err(ApplyError::Conflicts(conflicts)) => (conflicts.to_string(), conflicts.causes()),
            other => panic!("no conflict: {other:?}"),
        }
    }

    /// Writes the whole object.
    fn put(&mut self, manager: &str, fields: Value) -> &Value {
        let object = Self::configuration(fields);
        self.put_object(manager, "", object)
    }

    /// Changes the object as it is.
    fn change(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) -> &Value {
        let mut object = self.live.clone().unwrap();
        change(&mut object);
        self.put_object(manager, subresource, object)
    }

    fn put_object(&mut self, manager: &str, subresource: &str, mut object: Value) -> &Value {
        self.clock += 1;
        let now = Time::from_unix(self.clock, 0);
        self.subject(subresource)
            .track(self.live.as_ref(), &mut object, manager, now);
        self.store(object)
    }

    /// What the server does before it stores: nulls go, new objects get a uid, idle writes are taken back.
    fn store(&mut self, mut object: Value) -> &Value {
        drop_nulls(&mut object);
        object["metadata"]["uid"] = json!("1");
        if let Some(live) = &self.live {
            ignore_managed_fields_timestamps(live, &mut object);
        }
        self.live = Some(object);
        self.live.as_ref().unwrap()
    }

    fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    /// Who owns what: manager, operation, seconds, fields.
    fn owners(&self) -> Vec<(String, String, i64, Value)> {
        let Some(list) = self.live()["metadata"].get("managedFields") else {
            return Vec::new();
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        list.as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                assert_eq!(entry["fieldsType"], "FieldsV1");
                let time = entry
                    .get("time")
                    .and_then(|time| Time::parse(time.as_str().unwrap()).ok());
                let manager = match entry.get("subresource") {
                    Some(subresource) => format!("{}/{}", text(&entry["manager"]), text(subresource)),
                    None => text(&entry["manager"]),
                };
                (
                    manager,
                    text(&entry["operation"]),
                    time.map_or(0, Time::unix_seconds),
                    entry["fieldsV1"].clone(),
                )
            })
            .collect()
    }

    #[track_caller]
    fn owned_by<const N: usize>(&self, expected: [(&str, &str, i64, Value); N]) {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(manager, operation, time, fields)| {
                (manager.to_owned(), operation.to_owned(), time, fields)
            })
            .collect();
        assert_eq!(self.owners(), expected);
    }
}

pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
