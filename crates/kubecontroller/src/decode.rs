//! Answers of an API server become typed objects; `null` is read as Go reads it.

use kube::Client;
use serde::de::DeserializeOwned;

pub use k3_decode::{from_slice, from_str, from_value};

/// Sends a request, and decodes the answer. As `kube::Client::request`, which refuses some `null`s.
///
/// # Errors
/// The request fails, or its answer is not an object of the type.
pub async fn request<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let answer = client.request_text(request).await?;
    from_slice(answer.as_bytes()).map_err(kube::Error::SerdeError)
}
