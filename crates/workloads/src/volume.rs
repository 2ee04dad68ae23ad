//! Volumes of pods.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};

use crate::{SharedList, internable};

/// A volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The name.
    pub name: Box<str>,
    /// What it is.
    pub source: VolumeSource,
}

/// The sources of volumes that bind a pod to claims, nodes or images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// A claim that is made for the pod.
    #[default]
    Ephemeral,
    /// A claim by its name.
    PersistentVolumeClaim(Box<str>),
    /// A disk of Google.
    GcePersistentDisk {
        /// Its name.
        pd_name: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// A disk of Amazon, by its ID.
    AwsElasticBlockStore(Box<str>),
    /// An iSCSI target.
    Iscsi {
        /// Its qualified name.
        iqn: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// A Rados block device.
    Rbd {
        /// The monitors of the cluster.
        monitors: Box<[Box<str>]>,
        /// Its pool, if one is set.
        pool: Option<Box<str>>,
        /// Its image.
        image: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// A volume that a CSI driver makes in place, by the driver's name.
    Csi(Box<str>),
    /// The content of an image, by its reference.
    Image(Box<str>),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeFields {
    name: Box<str>,
    persistent_volume_claim: Option<ClaimFields>,
    ephemeral: Option<IgnoredAny>,
    gce_persistent_disk: Option<DiskFields>,
    aws_elastic_block_store: Option<DiskFields>,
    iscsi: Option<DiskFields>,
    rbd: Option<DiskFields>,
    csi: Option<DriverFields>,
    image: Option<ImageFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimFields {
    claim_name: Box<str>,
}

/// The fields of all disks that identify them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DiskFields {
    pd_name: Box<str>,
    #[serde(rename = "volumeID")]
    volume_id: Box<str>,
    iqn: Box<str>,
    monitors: Box<[Box<str>]>,
    pool: Option<Box<str>>,
    image: Box<str>,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DriverFields {
    driver: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImageFields {
    reference: Box<str>,
}

internable!(Volume);

// --- Volume ---

impl Volume {
    /// Whether its claim is made for the pod.
    pub fn is_ephemeral(&self) -> bool {
        self.source == VolumeSource::Ephemeral
    }

    /// The name of the claim that it is in a pod; `None` if it is none.
    // upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName
    pub fn claim_name(&self, pod: &str) -> Option<Cow<'_, str>> {
        match &self.source {
            VolumeSource::Ephemeral => Some(format!("{pod}-{}", self.name).into()),
            VolumeSource::PersistentVolumeClaim(claim) => Some((&**claim).into()),
            _ => None,
        }
    }
}

// --- VolumeFields ---

impl VolumeFields {
    /// `None` for a source that binds a pod to nothing, such as a ConfigMap.
    fn source(self) -> Option<VolumeSource> {
        if let Some(claim) = self.persistent_volume_claim {
            return Some(VolumeSource::PersistentVolumeClaim(claim.claim_name));
        }
        if self.ephemeral.is_some() {
            return Some(VolumeSource::Ephemeral);
        }
        if let Some(DiskFields {
            pd_name, read_only, ..
        }) = self.gce_persistent_disk
        {
            return Some(VolumeSource::GcePersistentDisk { pd_name, read_only });
        }
        if let Some(disk) = self.aws_elastic_block_store {
            return Some(VolumeSource::AwsElasticBlockStore(disk.volume_id));
        }
        if let Some(DiskFields { iqn, read_only, .. }) = self.iscsi {
            return Some(VolumeSource::Iscsi { iqn, read_only });
        }
        if let Some(disk) = self.rbd {
            return Some(VolumeSource::Rbd {
                monitors: disk.monitors,
                pool: disk.pool,
                image: disk.image,
                read_only: disk.read_only,
            });
        }
        if let Some(csi) = self.csi {
            return Some(VolumeSource::Csi(csi.driver));
        }
        self.image.map(|image| VolumeSource::Image(image.reference))
    }
}

/// The volumes of a pod, without those that bind it to nothing.
pub(crate) fn volumes<'de, D: Deserializer<'de>>(from: D) -> Result<SharedList<Volume>, D::Error> {
    let written = Option::<Vec<VolumeFields>>::deserialize(from)?.unwrap_or_default();
    let volumes = written.into_iter().filter_map(|mut volume| {
        let name = std::mem::take(&mut volume.name);
        let source = volume.source()?;
        Some(Volume { name, source })
    });
    Ok(volumes.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_the_volumes_that_bind_a_pod() {
        let volumes = volumes(json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "c", "configMap": {"name": "settings"}},
            {"name": "d", "csi": {"driver": "x"}},
        ]))
        .unwrap();
        let claims: Vec<_> = volumes.iter().map(|volume| volume.claim_name("web")).collect();
        assert_eq!(claims, [Some("data".into()), Some("web-b".into()), None]);
        assert_eq!(volumes[2].source, VolumeSource::Csi("x".into()));
        assert!(volumes[1].is_ephemeral() && !volumes[0].is_ephemeral());
    }
}
