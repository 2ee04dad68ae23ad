//! How the simulator writes objects.

use http::{Method, Request, header};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Makes requests. Clones are the same.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
}

/// What is wanted of an answer: the version that the object has now.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteResponse {
    metadata: AnswerMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnswerMeta {
    resource_version: String,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        Writer { client }
    }

    /// Makes an object. Gives its version.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> kube::Result<String> {
        self.send(Method::POST, path, JSON, object).await
    }

    /// Changes fields. Gives the version that the object has now.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> kube::Result<String> {
        self.send(Method::PATCH, path, MERGE, patch).await
    }

    /// Changes fields, and lists by the keys of their items. Gives the version that the object has now.
    pub(crate) async fn merge_lists(&self, path: &str, patch: &Value) -> kube::Result<String> {
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
        let answer: WriteResponse = kubecontroller::decode::request(&self.client, request).await?;
        Ok(answer.metadata.resource_version)
    }
}

/// Whether the server answered with a code.
pub(crate) fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
