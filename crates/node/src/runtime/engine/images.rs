//! Images: which are there, and bringing others.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use futures_util::StreamExt;
use http::{HeaderName, Method};
use serde_json::json;
use tokio::time::timeout;

use super::{
    Engine,
    answer::{ImageAnswer, Progress},
    client::{CallError, QUICK, query},
    lines::Lines,
    seen,
};
use crate::runtime::{FilesystemUsage, Image, PullSecret, RuntimeError};

/// An image that is brought must move on at least this often.
const PROGRESS: Duration = Duration::from_mins(1);
/// Removing an image deletes many files.
const REMOVAL: Duration = Duration::from_mins(2);

impl Engine {
    /// An image, if it is there.
    pub(super) async fn find_image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        match self
            .client
            .get::<ImageAnswer>(&format!("/images/{name}/json"), QUICK)
            .await
        {
            Ok(answer) => Ok(Some(seen::image(answer))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.pull_failed(name, error)),
        }
    }

    /// All images.
    pub(super) async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let listed: Vec<ImageAnswer> = self
            .client
            .get("/images/json", QUICK)
            .await
            .map_err(|error| self.failed(error, "list images"))?;
        Ok(listed.into_iter().map(seen::image).collect())
    }

    /// Brings an image, and tells its id.
    pub(super) async fn bring_image(
        &self,
        name: &str,
        secret: Option<&PullSecret>,
    ) -> Result<String, RuntimeError> {
        let (image, tag) = split_reference(name);
        let mut pairs = vec![("fromImage", image)];
        pairs.extend(tag.map(|tag| ("tag", tag)));
        let path = format!("/images/create{}", query(pairs));
        let headers: Vec<_> = secret
            .map(|secret| (HeaderName::from_static("x-registry-auth"), authentication(secret)))
            .into_iter()
            .collect();
        let stream = self
            .client
            .stream(Method::POST, &path, &headers, PROGRESS)
            .await
            .map_err(|error| self.pull_failed(name, error))?;
        let mut lines = Lines::new(stream);
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
        self.cache.forget_images();
        let image = self.find_image(name).await?;
        image
            .map(|image| image.id)
            .ok_or_else(|| RuntimeError::ImagePull(format!("the image {name} was pulled and is not there")))
    }

    /// Removes an image under all its names.
    pub(super) async fn drop_image(&self, id: &str) -> Result<(), RuntimeError> {
        let Some(image) = self.find_image(id).await? else {
            return Ok(());
        };
        self.cache.forget_images();
        // With its last name goes the image; one without names goes by its id.
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

    /// How the image of a container is told in statuses.
    pub(super) async fn told_image(&self, id: &str) -> Result<String, RuntimeError> {
        let id = seen::full_id(id);
        if let Some(told) = self.cache.image(&id) {
            return Ok(told);
        }
        let image = self.find_image(&id).await?.unwrap_or_else(|| Image {
            // It was removed under the container.
            id: id.clone(),
            ..Image::default()
        });
        let told = seen::image_id(self.planner.flavor, &image);
        self.cache.keep_image(&id, &told);
        Ok(told)
    }

    /// What images take on disk. Layers that several share are counted once for each.
    pub(super) async fn images_on_disk(&self) -> Result<FilesystemUsage, RuntimeError> {
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
            CallError::Status { code, message } => classified(code, message),
            error => self.failed(error, &format!("pull image {name}")),
        }
    }
}

/// A line of the engine while it brings an image.
fn progress(line: &[u8]) -> Result<(), RuntimeError> {
    let Ok(progress) = kubecontroller::decode::from_slice::<Progress>(line) else {
        return Ok(());
    };
    match (progress.error_detail, progress.error) {
        (Some(detail), _) if !detail.message.is_empty() => Err(classified(detail.code, detail.message)),
        (_, Some(message)) => Err(classified(0, message)),
        _ => Ok(()),
    }
}

/// A registry that does not answer is another trouble than one that says no.
fn classified(code: u16, message: String) -> RuntimeError {
    match code {
        502..=504 => RuntimeError::RegistryUnavailable(message),
        _ => RuntimeError::ImagePull(message),
    }
}

/// The name, and the tag if it has one. A digest stays with the name, as engines want it.
fn split_reference(name: &str) -> (&str, Option<&str>) {
    if name.contains('@') {
        return (name, None);
    }
    match name.rsplit_once(':') {
        // A colon before a slash is that of a port.
        Some((image, tag)) if !tag.contains('/') => (image, Some(tag)),
        // Without one the engine would bring them all.
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
    fn a_name_has_a_tag_or_the_latest() {
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
    fn failures_are_told_apart() {
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
    fn a_secret_is_sent_as_the_engine_reads_it() {
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
