//! Write requests of the simulator.

use http::{Method, Request, header};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Sends write requests. Clones share the client.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
}

/// The part of a response that the simulator reads: the resource version of the written object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteResponse {
    metadata: ResponseMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseMetadata {
    resource_version: String,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        Writer { client }
    }

    /// Creates an object and returns its resource version.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> kube::Result<String> {
        self.send(Method::POST, path, JSON, object).await
    }

    /// Applies a JSON merge patch and returns the new resource version.
    pub(crate) async fn merge_patch(&self, path: &str, patch: &Value) -> kube::Result<String> {
        self.send(Method::PATCH, path, MERGE, patch).await
    }

    /// Applies a strategic merge patch, which merges lists by key, and returns the new resource version.
    pub(crate) async fn strategic_merge_patch(&self, path: &str, patch: &Value) -> kube::Result<String> {
        self.send(Method::PATCH, path, STRATEGIC, patch).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str, options: &Value) -> kube::Result<String> {
        self.send(Method::DELETE, path, JSON, options).await
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: &Value) -> kube::Result<String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(serde_json::to_vec(body).map_err(kube::Error::SerdeError)?)
            .map_err(kube::Error::HttpError)?;
        let response: WriteResponse = kubecontroller::decode::request(&self.client, request).await?;
        Ok(response.metadata.resource_version)
    }
}

/// Whether the server returned an error with this status code.
pub(crate) fn has_status_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
