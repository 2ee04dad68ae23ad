//! Image calls.

use std::path::PathBuf;

use crate::runtime::{FilesystemUsage, Image, PullSecret, RuntimeError};

use super::{
    CriRuntime, convert, ignore_not_found,
    messages::{self, method},
};

impl CriRuntime {
    pub(super) async fn query_image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        let limit = self.timeouts.query;
        let response: Result<messages::ImageStatusResponse, _> = self
            .connection
            .call(method::IMAGE_STATUS, image_request(name), limit)
            .await;
        // Runtimes return an empty response for a missing image; some return NotFound.
        match ignore_not_found(response) {
            Ok(response) => Ok(response.image.map(convert::image)),
            Err(error) if is_invalid_reference(error.message()) => {
                Err(RuntimeError::InvalidImageName(error.message().to_owned()))
            }
            Err(error) => Err(self.runtime_error(error, &format!("image \"{name}\""), limit)),
        }
    }

    pub(super) async fn query_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let listed: messages::ListImagesResponse = self
            .query(
                method::LIST_IMAGES,
                messages::ListImagesRequest {},
                "the list of images",
            )
            .await?;
        Ok(listed.images.into_iter().map(convert::image).collect())
    }

    pub(super) async fn pull(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        let request = messages::PullImageRequest {
            image: Some(image(name)),
            auth: secret.map(auth),
            sandbox_config: None,
        };
        let limit = self.timeouts.pull;
        let pulled: Result<messages::PullImageResponse, _> =
            self.connection.call(method::PULL_IMAGE, request, limit).await;
        match pulled {
            Ok(pulled) if pulled.image_ref.is_empty() => Err(RuntimeError::ImagePull(format!(
                "imageRef of image \"{name}\" is not set"
            ))),
            Ok(pulled) => Ok(pulled.image_ref),
            Err(error) => Err(error.into_pull_error(name, limit, self.connection.socket())),
        }
    }

    pub(super) async fn remove_image_by_id(&self, id: &str) -> Result<(), RuntimeError> {
        let limit = self.timeouts.query;
        let result: Result<messages::Empty, _> = self
            .connection
            .call(method::REMOVE_IMAGE, image_request(id), limit)
            .await;
        ignore_not_found(result)
            .map(|_| ())
            .map_err(|error| self.runtime_error(error, &format!("removal of image \"{id}\""), limit))
    }

    pub(super) async fn query_image_fs_info(&self) -> Result<FilesystemUsage, RuntimeError> {
        let response: messages::ImageFsInfoResponse = self
            .query(method::IMAGE_FS_INFO, messages::Empty {}, "the image filesystem")
            .await?;
        filesystem_usage(response)
    }
}

/// The first image file system. A runtime may report none before its first garbage collection.
// upstream: pkg/kubelet/stats/cri_stats_provider.go ImageFsStats
fn filesystem_usage(response: messages::ImageFsInfoResponse) -> Result<FilesystemUsage, RuntimeError> {
    let first = response.image_filesystems.into_iter().next();
    let Some((fs_id, used)) = first.and_then(|first| Some((first.fs_id?, first.used_bytes))) else {
        return Err(RuntimeError::OperationFailed(
            "the runtime reports no image filesystem".to_owned(),
        ));
    };
    Ok(FilesystemUsage {
        path: PathBuf::from(fs_id.mountpoint),
        used: used.unwrap_or_default().value,
    })
}

fn image_request(name: &str) -> messages::ImageRequest {
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

fn is_invalid_reference(message: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_image_filesystem_is_an_error() {
        let none = messages::ImageFsInfoResponse::default();
        assert!(filesystem_usage(none).is_err());
        let unnamed = messages::ImageFsInfoResponse {
            image_filesystems: vec![messages::FilesystemUsage::default()],
        };
        assert!(filesystem_usage(unnamed).is_err());
        let named = messages::ImageFsInfoResponse {
            image_filesystems: vec![messages::FilesystemUsage {
                fs_id: Some(messages::FilesystemIdentifier {
                    mountpoint: "/images".to_owned(),
                }),
                ..messages::FilesystemUsage::default()
            }],
        };
        let usage = filesystem_usage(named).unwrap();
        assert_eq!((usage.path, usage.used), (PathBuf::from("/images"), 0));
    }
}
