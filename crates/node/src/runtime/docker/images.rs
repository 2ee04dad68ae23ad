//! Lists, pulls and removes images.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use futures_util::StreamExt;
use http::{HeaderName, Method};
use serde_json::json;
use tokio::time::timeout;

use super::{
    DockerRuntime,
    client::{CALL_TIMEOUT, CallError, query_string},
    convert,
    line_stream::LineStream,
    responses::{ImageResponse, ProgressMessage},
};
use crate::runtime::{FilesystemUsage, Image, PullSecret, RuntimeError};

/// Timeout without progress of a pull.
const PROGRESS: Duration = Duration::from_mins(1);
/// Timeout of removing an image, which deletes many files.
const REMOVAL: Duration = Duration::from_mins(2);

impl DockerRuntime {
    /// Returns an image, if present.
    pub(super) async fn inspect_image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        match self
            .client
            .get::<ImageResponse>(&format!("/images/{name}/json"), CALL_TIMEOUT)
            .await
        {
            Ok(answer) => Ok(Some(convert::image(answer))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.pull_failed(name, error)),
        }
    }

    /// Lists all images.
    pub(super) async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let listed: Vec<ImageResponse> = self
            .client
            .get("/images/json", CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list images"))?;
        Ok(listed.into_iter().map(convert::image).collect())
    }

    /// Pulls an image, and returns its ID.
    pub(super) async fn pull(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        let (image, tag) = split_reference(name);
        let mut pairs = vec![("fromImage", image)];
        pairs.extend(tag.map(|tag| ("tag", tag)));
        let path = format!("/images/create{}", query_string(pairs));
        let headers: Vec<_> = secret
            .map(|secret| (HeaderName::from_static("x-registry-auth"), authentication(secret)))
            .into_iter()
            .collect();
        let stream = self
            .client
            .stream(Method::POST, &path, &headers, PROGRESS)
            .await
            .map_err(|error| self.pull_failed(name, error))?;
        let mut lines = LineStream::new(stream);
        loop {
            let line = timeout(PROGRESS, lines.next())
                .await
                .map_err(|_| self.pull_failed(name, CallError::Timeout(PROGRESS)))?;
            match line {
                None => break,
                Some(Ok(line)) => progress(&line)?,
                Some(Err(error)) => {
                    return Err(self.pull_failed(name, CallError::Unreachable(error.to_string())));
                }
            }
        }
        self.cache.clear_images();
        let image = self.inspect_image(name).await?;
        image
            .map(|image| image.id)
            .ok_or_else(|| RuntimeError::ImagePull(format!("image {name} was pulled but does not exist")))
    }

    /// Removes an image with all its names.
    pub(super) async fn remove_image_by_names(&self, id: &str) -> Result<(), RuntimeError> {
        let Some(image) = self.inspect_image(id).await? else {
            return Ok(());
        };
        self.cache.clear_images();
        // The engine removes an image with its last tag; untagged images are removed by ID.
        let names = if image.tags.is_empty() {
            vec![image.id]
        } else {
            image.tags
        };
        for name in names {
            match self.client.delete(&format!("/images/{name}"), REMOVAL).await {
                Err(error) if !error.is_not_found() => return Err(self.failed(error, "remove image")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the image ID for the pod status.
    pub(super) async fn image_id_for_status(&self, id: &str) -> Result<String, RuntimeError> {
        let id = convert::full_id(id);
        if let Some(status_image_id) = self.cache.image(&id) {
            return Ok(status_image_id);
        }
        let image = self.inspect_image(&id).await?.unwrap_or_else(|| Image {
            // The image was removed while the container exists.
            id: id.clone(),
            ..Image::default()
        });
        let status_image_id = convert::image_id(self.config_generator.flavor, &image);
        self.cache.insert_image(&id, &status_image_id);
        Ok(status_image_id)
    }

    /// Returns the disk usage of images. Shared layers are counted for each image.
    pub(super) async fn measure_images(&self) -> Result<FilesystemUsage, RuntimeError> {
        let info = self.info().await?;
        let used = self.list_images().await?.iter().map(|image| image.size).sum();
        Ok(FilesystemUsage {
            path: info.docker_root_dir.into(),
            used,
        })
    }

    fn pull_failed(&self, name: &str, error: CallError) -> RuntimeError {
        match error {
            CallError::Status { code: 400, message } if message.contains("invalid reference format") => {
                RuntimeError::InvalidImageName(message)
            }
            CallError::Status { code, message } => classify_pull_error(code, message),
            error => self.failed(error, &format!("pull image {name}")),
        }
    }
}

/// Checks a progress line of a pull for errors.
fn progress(line: &[u8]) -> Result<(), RuntimeError> {
    let Ok(progress) = kubecontroller::decode::from_slice::<ProgressMessage>(line) else {
        return Ok(());
    };
    match (progress.error_detail, progress.error) {
        (Some(detail), _) if !detail.message.is_empty() => {
            Err(classify_pull_error(detail.code, detail.message))
        }
        (_, Some(message)) => Err(classify_pull_error(0, message)),
        _ => Ok(()),
    }
}

/// Distinguishes an unreachable registry from one that denies the pull.
fn classify_pull_error(code: u16, message: String) -> RuntimeError {
    match code {
        502..=504 => RuntimeError::RegistryUnavailable(message),
        _ => RuntimeError::ImagePull(message),
    }
}

/// Splits a reference into name and tag. A digest stays with the name, as engines require.
fn split_reference(name: &str) -> (&str, Option<&str>) {
    if name.contains('@') {
        return (name, None);
    }
    match name.rsplit_once(':') {
        // A colon before a slash separates the registry's port.
        Some((image, tag)) if !tag.contains('/') => (image, Some(tag)),
        // Without a tag the engine would pull all tags.
        _ => (name, Some("latest")),
    }
}

fn authentication(secret: &PullSecret) -> String {
    let text = json!({
        "username": secret.username,
        "password": secret.password,
        "serveraddress": secret.server,
        "identitytoken": secret.identity_token,
        "registrytoken": secret.registry_token,
    });
    URL_SAFE.encode(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_reference_into_name_and_tag() {
        for (name, expected) in [
            ("busybox", ("busybox", Some("latest"))),
            ("busybox:1", ("busybox", Some("1"))),
            ("localhost:5000/a", ("localhost:5000/a", Some("latest"))),
            ("localhost:5000/a:2", ("localhost:5000/a", Some("2"))),
            ("a@sha256:12", ("a@sha256:12", None)),
            ("a:1@sha256:12", ("a:1@sha256:12", None)),
        ] {
            assert_eq!(split_reference(name), expected, "{name}");
        }
    }

    #[test]
    fn classifies_pull_errors() {
        assert!(progress(br#"{"status":"Pulling"}"#).is_ok());
        let unknown =
            progress(br#"{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}"#);
        assert!(matches!(unknown, Err(RuntimeError::ImagePull(message)) if message == "manifest unknown"));
        let away = progress(br#"{"errorDetail":{"code":503,"message":"away"},"error":"away"}"#);
        assert!(matches!(away, Err(RuntimeError::RegistryUnavailable(_))));
        assert!(matches!(
            progress(br#"{"error":"no"}"#),
            Err(RuntimeError::ImagePull(_))
        ));
    }

    #[test]
    fn encodes_registry_credentials() {
        let secret = PullSecret {
            username: "me".into(),
            password: "pass".into(),
            ..PullSecret::default()
        };
        let sent = URL_SAFE.decode(authentication(&secret)).unwrap();
        let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent["username"], "me");
        assert_eq!(sent["password"], "pass");
    }
}
