//! Errors of the conversion of custom resources, with upstream's messages.

use k3_api::decode::DecodeError;

use crate::outgoing::CallError;

/// Why objects cannot be had in a version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    /// An object does not have the form of its version.
    #[error("{0}")]
    Malformed(String),
    /// The definition does not have the version, which is quoted.
    #[error("there is no version {0}")]
    NoVersion(String),
    #[error("no supported conversion review versions")]
    NoReviewVersion,
    /// The configuration of the webhook leads nowhere.
    #[error(transparent)]
    Destination(CallError),
    #[error("conversion webhook for {kind} failed: {source}")]
    Webhook {
        kind: String,
        source: ConversionCallError,
    },
    #[error("conversion webhook for {kind} returned {found} objects, expected {expected}")]
    Count {
        kind: String,
        found: usize,
        expected: usize,
    },
    #[error("conversion webhook for {kind} returned invalid {source}")]
    Object {
        kind: String,
        source: ConvertedObjectError,
    },
}

/// Why a conversion webhook has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionCallError {
    /// The review cannot be written.
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer is not JSON.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Response(#[from] ConversionResponseError),
}

/// Why a review is no answer, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionResponseError {
    #[error("expected webhook response of {expected}, got {found}")]
    Kind { expected: String, found: String },
    #[error("no response provided")]
    Absent,
    /// Both quoted.
    #[error("expected response.uid={expected}, got {found}")]
    Uid { expected: String, found: String },
    #[error("response.result.status was '{0}', not 'Success'")]
    NoSuccess(String),
    /// The message of the webhook about its failure.
    #[error("{0}")]
    Failure(String),
}

/// What is wrong with a converted object, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConvertedObjectError {
    #[error("converted object at index {index}: Object 'Kind' is missing in '{object}'")]
    NoKind { index: usize, object: String },
    #[error("converted object at index {index}: invalid {field} (expected {expected}, received {found})")]
    Type {
        index: usize,
        field: &'static str,
        expected: String,
        found: String,
    },
    #[error("converted object at index {index}: must have the same {field}: {expected} != {found}")]
    Identity {
        index: usize,
        field: &'static str,
        expected: String,
        found: String,
    },
    #[error("metadata in object at index {index}: {source}")]
    Metadata {
        index: usize,
        source: ConvertedMetadataError,
    },
}

/// What is wrong with the metadata of a converted object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConvertedMetadataError {
    #[error("missing metadata in converted object")]
    Missing,
    #[error("invalid metadata.{field} of type {kind} in converted object")]
    NoMap { field: &'static str, kind: &'static str },
    #[error("metadata.{field}[{key}] must be a string, but is {kind} in converted object")]
    NoText {
        field: &'static str,
        key: String,
        kind: &'static str,
    },
    /// Labels or annotations are not valid.
    #[error("{0}")]
    Invalid(String),
}
