//! Requests built from paths and JSON, so that no kind needs a complete Rust type.
//!
//! Promises: a name in a path never becomes another path, another segment or a query; responses are decoded with `null` as Go
//! reads it, and no further than their type asks for.

use http::{Method, Request, header};
use kube::{Client, api::ListParams, core::Status};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    decode,
    resource::{Resource, push_segment},
};

/// The content type of objects.
pub const JSON: &str = "application/json";
/// The content type of a JSON merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// The content type of a strategic merge patch.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Makes requests. Clones share the client.
#[derive(Clone)]
pub struct ApiWriter {
    client: Client,
}

/// An object, or a subresource of it.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// Its resource.
    pub resource: &'a Resource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
}

// --- ObjectRef ---

impl<'a> ObjectRef<'a> {
    /// A reference to an object; the namespace is empty for cluster-scoped resources.
    pub fn new(resource: &'a Resource, namespace: &'a str, name: &'a str) -> Self {
        ObjectRef {
            resource,
            namespace,
            name,
            subresource: "",
        }
    }

    /// A subresource of it.
    #[must_use]
    pub fn subresource(self, subresource: &'a str) -> Self {
        ObjectRef { subresource, ..self }
    }

    /// The path. An empty name would address the collection and is rejected.
    fn path(&self) -> kube::Result<String> {
        if self.name.is_empty() {
            let why = format!(
                "invalid name of an object of {}: it is empty",
                self.resource.plural
            );
            return Err(kube::Error::Api(Box::new(
                Status::failure(&why, "BadRequest").with_code(400),
            )));
        }
        let mut path = self.resource.object_path(self.namespace, self.name);
        if !self.subresource.is_empty() {
            push_segment(&mut path, self.subresource);
        }
        Ok(path)
    }
}

// --- ApiWriter ---

impl ApiWriter {
    /// Writes with this client, as its user.
    pub fn new(client: Client) -> Self {
        ApiWriter { client }
    }

    /// The client that requests are sent with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object from the server, not from an informer's cache.
    pub async fn get<T: DeserializeOwned>(&self, object_ref: ObjectRef<'_>) -> kube::Result<T> {
        self.send(Method::GET, &object_ref.path()?, JSON, None::<&Value>)
            .await
    }

    /// Reads a path with a given Accept header.
    pub async fn get_path<T: DeserializeOwned>(&self, path: &str, accept: &str) -> kube::Result<T> {
        let request = Request::get(path).header(header::ACCEPT, accept);
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        decode::request(&self.client, request).await
    }

    /// Reads a page of a list.
    pub async fn list_page<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        parameters: &ListParams,
    ) -> kube::Result<ListPage<T>> {
        let request = kube::core::Request::new(resource.path(namespace)).list(parameters);
        decode::request(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Reads a page of a list; the server sends metadata only.
    pub async fn list_metadata_page<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        parameters: &ListParams,
    ) -> kube::Result<ListPage<T>> {
        let request = kube::core::Request::new(resource.path(namespace)).list_metadata(parameters);
        decode::request(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Reads a complete object by a list with a field selector, for accounts that may list but not get.
    pub async fn find_by_name(&self, object_ref: ObjectRef<'_>) -> kube::Result<Option<Value>> {
        // upstream: staging/src/k8s.io/apimachinery/pkg/fields/selector.go EscapeValue
        let name = object_ref
            .name
            .replace('\\', r"\\")
            .replace(',', r"\,")
            .replace('=', r"\=");
        let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
        let page: ListPage<Value> = self
            .list_page(object_ref.resource, object_ref.namespace, &parameters)
            .await?;
        let mut found = page.items.into_iter().next();
        // The items of a list do not say what they are.
        if let Some(object) = &mut found {
            object["apiVersion"] = object_ref.resource.api_version().into();
            object["kind"] = (&*object_ref.resource.kind).into();
        }
        Ok(found)
    }

    /// Creates an object.
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::POST, &resource.path(namespace), JSON, Some(object))
            .await
    }

    /// Posts to a subresource, such as `binding` or `eviction`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::POST, &object_ref.path()?, JSON, Some(object))
            .await
    }

    /// Replaces an object (PUT).
    pub async fn update<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PUT, &object_ref.path()?, JSON, Some(object))
            .await
    }

    /// JSON merge patch. With `metadata.resourceVersion` it conflicts if the object changed.
    pub async fn merge_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, MERGE, Some(patch))
            .await
    }

    /// Reads an object, changes it here, and writes it or its subresource back, with a conflict if it changed meanwhile. For
    /// accounts that may update but not patch.
    pub async fn read_modify_update<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        change: impl FnOnce(Value) -> kube::Result<Value> + Send,
    ) -> kube::Result<T> {
        let object: Value = self
            .get(ObjectRef {
                subresource: "",
                ..object_ref
            })
            .await?;
        self.update(object_ref, &change(object)?).await
    }

    /// Strategic merge patch: lists are merged by their keys.
    pub async fn strategic_merge_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, STRATEGIC, Some(patch))
            .await
    }

    /// JSON patch; `test` operations are preconditions.
    pub async fn json_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        steps: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, JSON_PATCH, Some(steps))
            .await
    }

    /// Server-side apply with force. Fields that the manager applied before and that are missing now are removed.
    pub async fn server_side_apply<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        manager: &str,
        fields: &impl Serialize,
    ) -> kube::Result<T> {
        let path = format!("{}?fieldManager={manager}&force=true", object_ref.path()?);
        self.send(Method::PATCH, &path, APPLY, Some(fields)).await
    }

    /// Deletes an object. A missing object counts as success.
    pub async fn delete(&self, object_ref: ObjectRef<'_>, options: &impl Serialize) -> kube::Result<()> {
        let deleted: kube::Result<Value> = self
            .send(Method::DELETE, &object_ref.path()?, JSON, Some(options))
            .await;
        match deleted {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Sends any request; the path may have a query.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Option<&impl Serialize>,
    ) -> kube::Result<T> {
        decode::request(&self.client, request(method, path, media, body)?).await
    }

    /// Sends any request, like [`ApiWriter::send`], and does not read the object in the response.
    pub async fn send_only(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: &impl Serialize,
    ) -> kube::Result<()> {
        let request = request(method, path, media, Some(body))?;
        self.client.request_text(request).await.map(drop)
    }
}

fn request(
    method: Method,
    path: &str,
    media: &str,
    body: Option<&impl Serialize>,
) -> kube::Result<Request<Vec<u8>>> {
    let body = match body {
        Some(body) => serde_json::to_vec(body).map_err(kube::Error::SerdeError)?,
        None => Vec::new(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media);
    request.body(body).map_err(kube::Error::HttpError)
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
pub struct ListPage<T> {
    /// List metadata.
    #[serde(default)]
    pub metadata: PageMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// List metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta {
    /// resourceVersion of the list.
    pub resource_version: Box<str>,
    /// Continue token; empty on the last page.
    #[serde(rename = "continue")]
    pub next: Box<str>,
    /// Number of objects on the following pages, if the server reports it.
    pub remaining_item_count: Option<usize>,
}

/// The response to a write, as far as most controllers need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WrittenObject {
    /// Its metadata.
    pub metadata: WrittenObjectMeta,
}

/// Metadata of a written object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenObjectMeta {
    /// The name, which the server may have generated.
    pub name: Box<str>,
    /// The uid.
    pub uid: Box<str>,
    /// The new resourceVersion.
    pub resource_version: Box<str>,
}

/// DeleteOptions with a UID precondition: another object with the same name is not deleted.
pub fn delete_options_for_uid(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
}

/// The message of an API error.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whether a create failed because the namespace is terminating; this is not retried.
pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

/// Whether a create failed because the object exists already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// Whether the object, or its resource, does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    has_status_code(error, 404)
}

/// Whether the server responded with this status code.
pub fn has_status_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ResourceScope;

    static PODS: Resource = Resource::new("", "v1", "pods", "Pod", ResourceScope::Namespaced);

    #[test]
    fn empty_name_is_rejected_and_subresource_is_a_segment() {
        let error = ObjectRef::new(&PODS, "shop", "").path().unwrap_err();
        assert!(has_status_code(&error, 400) && !is_not_found(&error), "{error}");
        assert_eq!(
            error_message(&error),
            "invalid name of an object of pods: it is empty"
        );
        let status = ObjectRef::new(&PODS, "shop", "a/b").subresource("status");
        assert_eq!(
            status.path().unwrap(),
            "/api/v1/namespaces/shop/pods/a%2Fb/status"
        );
    }
}
