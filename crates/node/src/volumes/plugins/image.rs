//! `image` volumes: files of an image (KEP-4639). The container runtime mounts them.

use async_trait::async_trait;

use crate::volumes::{
    plugin::{
        MountedVolume, Mounter, MounterArgs, MounterError, VolumeContext, VolumeLocation, VolumePlugin,
    },
    spec::VolumeSpec,
};

pub(super) struct ImagePlugin;

struct ImageMounter {
    reference: String,
}

// --- ImagePlugin ---

#[async_trait]
impl VolumePlugin for ImagePlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/image"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.image.is_some())
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        _context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.image.as_ref());
        let reference = source.and_then(|source| source.reference.clone());
        Ok(Box::new(ImageMounter {
            reference: reference.unwrap_or_default(),
        }))
    }
}

// --- ImageMounter ---

impl Mounter for ImageMounter {
    fn set_up(&self, _args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError> {
        Ok(MountedVolume {
            location: VolumeLocation::Image(self.reference.clone()),
            read_only: true,
            create_when_mounted: false,
            is_ephemeral: false,
        })
    }
}
