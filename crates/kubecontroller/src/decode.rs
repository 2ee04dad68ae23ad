//! Decodes JSON like Go: `null` stands for the zero value.

use kube::Client;
use serde::de::DeserializeOwned;

pub use k3_decode::{from_slice, from_str, from_value};

/// Like `kube::Client::request`, but accepts `null` where Go does. Go API servers write `null` for empty lists, which serde
/// rejects.
///
/// # Errors
/// The request fails, or the response does not decode as `T`.
pub async fn request<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let response = client.request_text(request).await?;
    from_slice(response.as_bytes()).map_err(kube::Error::SerdeError)
}
