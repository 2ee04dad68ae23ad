//! Converts custom resources between versions, by schema or by conversion webhook.

use std::{sync::Arc, time::Duration};

use k3_api::{
    custom::{self, Conversion, CustomResourceStrategy, ObjectSource},
    decode,
    field::Path,
    go, name,
    strategy::{RestStrategy, Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{
    ServedDefinition,
    conversion_error::{
        ConversionCallError, ConversionError, ConversionResponseError, ConvertedMetadataError,
        ConvertedObjectError,
    },
};
use crate::{
    outgoing::{Destination, WebhookClientManager},
    registry::random_uid,
};

/// How long a webhook may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The group of the reviews.
const GROUP: &str = "apiextensions.k8s.io";

/// What converts objects of custom kinds.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/converter.go crConverter
pub(crate) struct CustomResourceConverter {
    outgoing: Arc<WebhookClientManager>,
}

// --- CustomResourceConverter ---

impl CustomResourceConverter {
    /// A converter that asks webhooks by this client.
    pub(crate) fn new(outgoing: Arc<WebhookClientManager>) -> Self {
        CustomResourceConverter { outgoing }
    }

    /// Stored objects in a version, in one request if a webhook is to be asked. What they leave out is filled in by the version
    /// they are stored in, as it always was; a version they are only shown in fills in nothing.
    pub(crate) async fn show(
        &self,
        served: &ServedDefinition,
        mut objects: Vec<Value>,
        version: &str,
    ) -> Result<Vec<Value>, ConversionError> {
        for object in &mut objects {
            let stored = object.text("apiVersion").rsplit('/').next().unwrap_or_default();
            // A version that is no more has no rules.
            if let Some(stored) = served.definition.version(stored) {
                settle(&stored.strategy, object, ObjectSource::Storage)?;
            }
        }
        self.convert(served, objects, version).await
    }

    /// Converts a validated object to the storage version.
    pub(crate) async fn store(
        &self,
        served: &ServedDefinition,
        object: Value,
    ) -> Result<Value, ConversionError> {
        let storage = served.definition.storage();
        let mut objects = self.convert(served, vec![object], &storage.name).await?;
        let mut object = objects
            .pop()
            .expect("a conversion gives as many objects as it gets");
        storage.strategy.set_defaults(&mut object);
        Ok(object)
    }

    /// Brings objects of any version of the definition into this one.
    async fn convert(
        &self,
        served: &ServedDefinition,
        mut objects: Vec<Value>,
        version: &str,
    ) -> Result<Vec<Value>, ConversionError> {
        let version_rules = served
            .definition
            .version(version)
            .ok_or_else(|| ConversionError::NoVersion(go::quote(version)))?;
        let api_version = version_rules.strategy.api_version();
        let is_other = |object: &Value| object.text("apiVersion") != api_version;
        let others: Vec<Value> = objects
            .iter()
            .filter(|object| is_other(object))
            .cloned()
            .collect();
        if others.is_empty() {
            return Ok(objects);
        }
        let converted = match &served.definition.conversion {
            Conversion::Webhook(webhook) => self.ask(webhook, others, api_version).await?,
            Conversion::None => {
                let mut others = others;
                for object in &mut others {
                    custom::convert(object, api_version);
                }
                others
            }
        };
        let mut converted = converted.into_iter();
        for object in objects.iter_mut().filter(|object| is_other(object)) {
            *object = converted
                .next()
                .expect("a conversion gives as many objects as it gets");
            version_rules
                .strategy
                .coerce(object, ObjectSource::Conversion)
                .map_err(|error| ConversionError::Malformed(error.to_string()))?;
        }
        Ok(objects)
    }

    /// One object in another version, with all that it has: nothing is left out or filled in. A webhook is asked while this
    /// thread waits.
    pub(crate) fn convert_now(
        &self,
        served: &ServedDefinition,
        mut object: Value,
        api_version: &str,
    ) -> Result<Value, ConversionError> {
        let Conversion::Webhook(webhook) = &served.definition.conversion else {
            custom::convert(&mut object, api_version);
            return Ok(object);
        };
        let asked = self.ask(webhook, vec![object], api_version);
        let runtime = tokio::runtime::Handle::current();
        let converted = tokio::task::block_in_place(|| runtime.block_on(asked))?;
        let mut converted = converted.into_iter();
        Ok(converted.next().expect("the number of objects was checked"))
    }

    /// Calls the conversion webhook.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go Convert, createConversionReviewObjects
    async fn ask(
        &self,
        webhook: &Value,
        objects: Vec<Value>,
        api_version: &str,
    ) -> Result<Vec<Value>, ConversionError> {
        let first = objects.first().map(of_kind).unwrap_or_default();
        let failed = |source: ConversionCallError| ConversionError::Webhook {
            kind: first.clone(),
            source,
        };
        let uid = random_uid();
        let version = webhook
            .texts("conversionReviewVersions")
            .find(|version| matches!(*version, "v1" | "v1beta1"))
            .ok_or(ConversionError::NoReviewVersion)?;
        let request = json!({
            "kind": "ConversionReview",
            "apiVersion": format!("{GROUP}/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        });
        let to = Destination::read(webhook.at("clientConfig")).map_err(ConversionError::Destination)?;
        let document = serde_json::to_vec(&request).map_err(|error| failed(error.into()))?;
        let reply = self.outgoing.post(&to, document.into(), Some(PATIENCE)).await;
        let reply = reply.map_err(|error| failed(error.into()))?;
        let review = decode::untyped(&reply)
            .map_err(|error| failed(error.into()))?
            .value;
        let converted = converted_objects(&review, version, &uid).map_err(|error| failed(error.into()))?;
        if converted.len() != objects.len() {
            return Err(ConversionError::Count {
                kind: first,
                found: converted.len(),
                expected: objects.len(),
            });
        }
        let mut all = Vec::with_capacity(objects.len());
        for (index, (object, converted)) in objects.iter().zip(converted).enumerate() {
            let converted = check_converted(object, converted.clone(), api_version, index);
            all.push(converted.map_err(|source| ConversionError::Object {
                kind: first.clone(),
                source,
            })?);
        }
        Ok(all)
    }
}

/// Brings an object into the form of its version, with what it leaves out.
fn settle(
    rules: &CustomResourceStrategy,
    object: &mut Value,
    source: ObjectSource,
) -> Result<(), ConversionError> {
    rules
        .coerce(object, source)
        .map_err(|error| ConversionError::Malformed(error.to_string()))?;
    rules.set_defaults(object);
    Ok(())
}

/// Group, version and kind, as errors show them.
fn of_kind(object: &Value) -> String {
    format!("{}, Kind={}", object.text("apiVersion"), object.text("kind"))
}

/// The converted objects in the answer of a webhook.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go getConvertedObjectsFromResponse
fn converted_objects<'r>(
    review: &'r Value,
    version: &str,
    uid: &str,
) -> Result<&'r [Value], ConversionResponseError> {
    let response = review.at("response");
    if version == "v1" {
        let expected = format!("{GROUP}/v1, Kind=ConversionReview");
        let found = of_kind(review);
        if found != expected {
            return Err(ConversionResponseError::Kind { expected, found });
        }
    }
    if !response.is_object() {
        return Err(ConversionResponseError::Absent);
    }
    if version == "v1" && response.text("uid") != uid {
        return Err(ConversionResponseError::Uid {
            expected: go::quote(uid),
            found: go::quote(response.text("uid")),
        });
    }
    let result = response.at("result");
    match (result.text("status"), result.text("message")) {
        ("Success", _) => Ok(response.items("convertedObjects")),
        (status, "") => Err(ConversionResponseError::NoSuccess(status.to_owned())),
        (_, message) => Err(ConversionResponseError::Failure(message.to_owned())),
    }
}

/// What a webhook made of an object, if it left alone what it must not touch.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go validateConvertedObject
fn check_converted(
    object: &Value,
    mut converted: Value,
    api_version: &str,
    index: usize,
) -> Result<Value, ConvertedObjectError> {
    if converted.text("kind").is_empty() {
        return Err(ConvertedObjectError::NoKind {
            index,
            object: converted.to_string(),
        });
    }
    let same = |field: &'static str, expected: &str, found: &str| {
        if expected == found {
            Ok(())
        } else {
            Err(ConvertedObjectError::Type {
                index,
                field,
                expected: expected.to_owned(),
                found: found.to_owned(),
            })
        }
    };
    same("groupVersion", api_version, converted.text("apiVersion"))?;
    same("kind", object.text("kind"), converted.text("kind"))?;
    let before = object.at("metadata");
    let after = converted.at("metadata");
    for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let expected = before.text(field);
        let found = after.text(field);
        if expected != found {
            return Err(ConvertedObjectError::Identity {
                index,
                field: word,
                expected: expected.to_owned(),
                found: found.to_owned(),
            });
        }
    }
    let metadata =
        restored(before, after).map_err(|source| ConvertedObjectError::Metadata { index, source })?;
    converted.set("metadata", metadata);
    Ok(converted)
}

/// The metadata of an object with the labels and annotations that a webhook gave it.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go restoreObjectMeta
fn restored(before: &Value, after: &Value) -> Result<Value, ConvertedMetadataError> {
    if !after.is_object() {
        return Err(ConvertedMetadataError::Missing);
    }
    let mut metadata = before.clone();
    for field in ["labels", "annotations"] {
        let given = after.at(field);
        if given.is_null() {
            metadata.remove(field);
            continue;
        }
        let Some(entries) = given.as_object() else {
            let kind = go::type_name(given);
            return Err(ConvertedMetadataError::NoMap { field, kind });
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
            return Err(ConvertedMetadataError::NoText {
                field,
                key: key.clone(),
                kind: go::type_name(value),
            });
        }
        if given != before.at(field) {
            let root = Path::new("metadata");
            let errors = match field {
                "labels" => name::validate_labels(&root.child("labels"), entries),
                _ => name::validate_annotations(&root.child("annotation"), entries),
            };
            match errors.as_slice() {
                [] => {}
                [only] => return Err(ConvertedMetadataError::Invalid(only.to_string())),
                many => {
                    let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
                    return Err(ConvertedMetadataError::Invalid(format!("[{}]", texts.join(", "))));
                }
            }
        }
        metadata.set(field, given.clone());
    }
    Ok(metadata)
}
