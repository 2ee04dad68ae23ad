//! Images.

use std::path::PathBuf;

use crate::runtime::{FilesystemUsage, Image, PullSecret, RuntimeError};

use super::{
    Cri, gone,
    messages::{self, method},
    state,
};

impl Cri {
    pub(super) async fn find_image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        let limit = self.limits.query;
        let told: Result<messages::ImageStatusResponse, _> = self
            .connection
            .call(method::IMAGE_STATUS, named(name), limit)
            .await;
        // Runtimes answer with nothing for one that they do not have; some say so.
        match gone(told) {
            Ok(told) => Ok(told.image.map(state::image)),
            Err(failure) if is_malformed(failure.message()) => {
                Err(RuntimeError::InvalidImageName(failure.message().to_owned()))
            }
            Err(failure) => Err(self.explain(failure, &format!("image \"{name}\""), limit)),
        }
    }

    pub(super) async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let listed: messages::ListImagesResponse = self
            .query(
                method::LIST_IMAGES,
                messages::ListImagesRequest {},
                "the list of images",
            )
            .await?;
        Ok(listed.images.into_iter().map(state::image).collect())
    }

    pub(super) async fn bring_image(
        &self,
        name: &str,
        secret: Option<&PullSecret>,
    ) -> Result<String, RuntimeError> {
        let request = messages::PullImageRequest {
            image: Some(image(name)),
            auth: secret.map(auth),
            sandbox_config: None,
        };
        let limit = self.limits.pull;
        let pulled: Result<messages::PullImageResponse, _> =
            self.connection.call(method::PULL_IMAGE, request, limit).await;
        match pulled {
            Ok(pulled) if pulled.image_ref.is_empty() => Err(RuntimeError::ImagePull(format!(
                "imageRef of image \"{name}\" is not set"
            ))),
            Ok(pulled) => Ok(pulled.image_ref),
            Err(failure) => Err(failure.explain_pull(name, limit, self.connection.socket())),
        }
    }

    pub(super) async fn delete_image(&self, id: &str) -> Result<(), RuntimeError> {
        let limit = self.limits.query;
        let done: Result<messages::Nothing, _> =
            self.connection.call(method::REMOVE_IMAGE, named(id), limit).await;
        gone(done)
            .map(|_| ())
            .map_err(|failure| self.explain(failure, &format!("removal of image \"{id}\""), limit))
    }

    pub(super) async fn tell_image_filesystem(&self) -> Result<FilesystemUsage, RuntimeError> {
        let told: messages::ImageFsInfoResponse = self
            .query(
                method::IMAGE_FS_INFO,
                messages::Nothing {},
                "the file system of images",
            )
            .await?;
        let first = told.image_filesystems.into_iter().next().unwrap_or_default();
        Ok(FilesystemUsage {
            path: PathBuf::from(first.fs_id.unwrap_or_default().mountpoint),
            used: first.used_bytes.unwrap_or_default().value,
        })
    }
}

fn named(name: &str) -> messages::ImageRequest {
    messages::ImageRequest {
        image: Some(image(name)),
    }
}

fn image(name: &str) -> messages::ImageSpec {
    messages::ImageSpec {
        image: name.to_owned(),
        user_specified_image: name.to_owned(),
        ..messages::ImageSpec::default()
    }
}

fn is_malformed(message: &str) -> bool {
    message.contains("invalid reference format")
}

fn auth(secret: &PullSecret) -> messages::AuthConfig {
    messages::AuthConfig {
        username: secret.username.clone(),
        password: secret.password.clone(),
        server_address: secret.server.clone(),
        identity_token: secret.identity_token.clone(),
        registry_token: secret.registry_token.clone(),
    }
}
