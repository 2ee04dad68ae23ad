//! How controllers change things: requests made of paths and JSON, so that no kind has to be known whole.

use http::{Method, Request, header};
use k3_api::status::Status;
use kube::{Client, api::ListParams};
use kubecontroller::decode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::resource::{Resource, push_segment};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Makes requests in the name of a controller. Clones are the same.
#[derive(Clone)]
pub struct ApiWriter {
    client: Client,
}

/// An object, or a part of one that has a path of its own.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// What it is.
    pub resource: &'a Resource,
    /// Where it is; empty for cluster-wide objects.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
}

// --- Place ---

impl<'a> ObjectRef<'a> {
    /// An object.
    pub fn new(resource: &'a Resource, namespace: &'a str, name: &'a str) -> Self {
        ObjectRef {
            resource,
            namespace,
            name,
            subresource: "",
        }
    }

    /// A part of it.
    #[must_use]
    pub fn subresource(self, subresource: &'a str) -> Self {
        ObjectRef { subresource, ..self }
    }

    /// Where it is. Without a name it would be all objects.
    fn path(&self) -> kube::Result<String> {
        if self.name.is_empty() {
            let why = format!(
                "invalid name of an object of {}: it is empty",
                self.resource.plural
            );
            return Err(to_api_error(&Status::bad_request(why)));
        }
        let mut path = self.resource.object_path(self.namespace, self.name);
        if !self.subresource.is_empty() {
            push_segment(&mut path, self.subresource);
        }
        Ok(path)
    }
}

// --- Writer ---

impl ApiWriter {
    /// A writer with the rights of a client.
    pub fn new(client: Client) -> Self {
        ApiWriter { client }
    }

    /// The client it writes with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object from the server itself, not from what an informer has.
    pub async fn get<T: DeserializeOwned>(&self, object_ref: ObjectRef<'_>) -> kube::Result<T> {
        self.send(Method::GET, &object_ref.path()?, JSON, None::<&Value>)
            .await
    }

    /// Reads a path in a form of its own.
    pub async fn get_path<T: DeserializeOwned>(&self, path: &str, accept: &str) -> kube::Result<T> {
        let request = Request::get(path).header(header::ACCEPT, accept);
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        decode::request(&self.client, request).await
    }

    /// Reads a part of a list, as the parameters say.
    pub async fn list_page<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        parameters: &ListParams,
    ) -> kube::Result<Page<T>> {
        let request = kube::core::Request::new(resource.path(namespace)).list(parameters);
        decode::request(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }

    /// The same, where `T` reads nothing but metadata; the server sends no more than that.
    pub async fn list_metadata_page<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        parameters: &ListParams,
    ) -> kube::Result<Page<T>> {
        let request = kube::core::Request::new(resource.path(namespace)).list_metadata(parameters);
        decode::request(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Reads an object in the name of those who may list and not get, whole as it can be put back.
    pub async fn find_by_name(&self, object_ref: ObjectRef<'_>) -> kube::Result<Option<Value>> {
        // upstream: staging/src/k8s.io/apimachinery/pkg/fields/selector.go EscapeValue
        let name = object_ref
            .name
            .replace('\\', r"\\")
            .replace(',', r"\,")
            .replace('=', r"\=");
        let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
        let page: Page<Value> = self
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

    /// Makes an object.
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::POST, &resource.path(namespace), JSON, Some(object))
            .await
    }

    /// Posts to a part of an object, such as `binding` or `eviction`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::POST, &object_ref.path()?, JSON, Some(object))
            .await
    }

    /// Puts an object in the place of the one that is there.
    pub async fn update<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PUT, &object_ref.path()?, JSON, Some(object))
            .await
    }

    /// Changes the fields that the patch has. With `metadata.resourceVersion` in it, only if nobody was faster.
    pub async fn merge_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, MERGE, Some(patch))
            .await
    }

    /// Does what [`ApiWriter::merge`] does, for those who may replace an object and not patch it, as most controllers may only
    /// with a status: it is read, changed here, and put back, unless somebody was faster.
    pub async fn update_with_merge<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &Value,
    ) -> kube::Result<T> {
        self.read_modify_update(object_ref, |object| {
            k3_api::patch::merge::apply(object, patch.clone())
        })
        .await
    }

    /// Does what [`ApiWriter::patch`] does, in the same way.
    pub async fn update_with_json_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        steps: &[Value],
    ) -> kube::Result<T> {
        let patch = k3_api::patch::json::Patch::try_new(steps.into());
        let patch = patch.map_err(|error| to_api_error(&error.status()))?;
        self.read_modify_update(object_ref, |object| {
            patch.apply(object).map_err(|error| error.status())
        })
        .await
    }

    async fn read_modify_update<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        change: impl FnOnce(Value) -> Result<Value, Status> + Send,
    ) -> kube::Result<T> {
        let object: Value = self
            .get(ObjectRef {
                subresource: "",
                ..object_ref
            })
            .await?;
        let changed = change(object).map_err(|error| to_api_error(&error))?;
        self.update(object_ref, &changed).await
    }

    /// Changes lists by the keys of their items, as the kind has them.
    pub async fn strategic_merge_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, STRATEGIC, Some(patch))
            .await
    }

    /// Changes an object step by step; steps may be conditions.
    pub async fn json_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        steps: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(Method::PATCH, &object_ref.path()?, JSON_PATCH, Some(steps))
            .await
    }

    /// Makes fields of an object so, in the name of who looks after them and whoever set them before. Those that were set so
    /// before and are not among them any more are taken away.
    pub async fn server_side_apply<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        manager: &str,
        fields: &impl Serialize,
    ) -> kube::Result<T> {
        let path = format!("{}?fieldManager={manager}&force=true", object_ref.path()?);
        self.send(Method::PATCH, &path, APPLY, Some(fields)).await
    }

    /// Deletes an object. What is gone already is success: that is what was wanted.
    pub async fn delete(&self, object_ref: ObjectRef<'_>, options: &impl Serialize) -> kube::Result<()> {
        let deleted: kube::Result<Value> = self
            .send(Method::DELETE, &object_ref.path()?, JSON, Some(options))
            .await;
        match deleted {
            Err(error) if has_status_code(&error, 404) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Any request; the path may carry a query.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Option<&impl Serialize>,
    ) -> kube::Result<T> {
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(kube::Error::SerdeError)?,
            None => Vec::new(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(body)
            .map_err(kube::Error::HttpError)?;
        decode::request(&self.client, request).await
    }
}

/// A part of a list.
#[derive(Clone, Debug, Deserialize)]
pub struct Page<T> {
    /// What is said of the list.
    #[serde(default)]
    pub metadata: PageMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// What is said of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta {
    /// The version of the list.
    pub resource_version: Box<str>,
    /// What to ask with for the next part; empty if there is none.
    #[serde(rename = "continue")]
    pub next: Box<str>,
    /// How many objects there are in the parts to come, if the server counts them.
    pub remaining_item_count: Option<usize>,
}

/// What a controller wants to know of an object that it has written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WrittenObject {
    /// Of its metadata.
    pub metadata: WrittenObjectMeta,
}

/// What a controller wants to know of the metadata of an object that it has written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenObjectMeta {
    /// The name, which the server may have made.
    pub name: Box<str>,
    /// The uid.
    pub uid: Box<str>,
    /// The version that it has now.
    pub resource_version: Box<str>,
}

/// Says that exactly this object is to be deleted, and not another one that has its name by now.
pub fn delete_options_for_uid(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
}

/// What the server said, in its own words.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whether something cannot be made because its namespace goes; nothing has to be done about that.
pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

/// Whether something cannot be made because there is one of that name.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// What a server would have said.
fn to_api_error(status: &Status) -> kube::Error {
    let told = kube::core::Status::failure(&status.message, status.reason.word());
    kube::Error::Api(Box::new(told.with_code(status.code)))
}

/// Whether the server answered with a code.
pub fn has_status_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
