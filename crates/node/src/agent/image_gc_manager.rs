//! Image garbage collection: lists the images for the Node status, and removes unused ones when the disk fills up.
//!
//! Promises: an image is removed only if this node pulled it, no container of any cluster uses it, it is not pinned, and it is
//! older than the minimum age: an image that was just pulled is about to be used. Upstream removes any image; here the runtime may
//! be shared with users and other clusters. The least recently used images are removed first, and no more than needed.
// upstream: pkg/kubelet/images/image_gc_manager.go realImageGCManager

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubecontroller::{events::EventType, manager::Stop};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    ImageGcPolicy, machine::MachineReader, node::NodeEventRecorder, runtime_monitor::RuntimeReceiver,
};
use crate::{
    blocking::run_blocking,
    images::PulledImages,
    runtime::{Image, Runtime, RuntimeError},
};

/// Period of listing the images.
const LIST_PERIOD: Duration = Duration::from_secs(30);
/// Timeout of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of removing an image.
const REMOVE_TIMEOUT: Duration = Duration::from_mins(2);

/// Lists images, and removes unused ones.
pub(super) struct ImageGcManager {
    policy: ImageGcPolicy,
    pulled: PulledImages,
    runtime: RuntimeReceiver,
    machine_reader: MachineReader,
    events: NodeEventRecorder,
    /// Usage of each image by its ID. Locked while images are removed (single flight): a second collection waits, and finds only
    /// the images that the first one left.
    records: Mutex<BTreeMap<String, ImageRecord>>,
    list: watch::Sender<Arc<Vec<Image>>>,
}

/// When an image was first detected and last used.
// upstream: pkg/kubelet/images/image_gc_manager.go imageRecord
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImageRecord {
    first_detected: Instant,
    last_used: Option<Instant>,
    size: u64,
    pinned: bool,
}

/// Why image garbage collection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageGcError {
    /// A call of the runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The file system of the images is unreadable or has no blocks.
    #[error("invalid capacity 0 on image filesystem")]
    InvalidCapacity,
    /// The unused images are smaller than what has to be freed.
    #[error(
        "Insufficient free disk space on the node's image filesystem ({used_percent}% of {} used). Failed to free \
         sufficient space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be \
         used by active images, logs, volumes, or other data.",
        format_size(*capacity)
    )]
    InsufficientSpace {
        used_percent: u64,
        capacity: u64,
        freed: u64,
    },
}

impl ImageGcManager {
    pub(super) fn new(
        policy: ImageGcPolicy,
        pulled: PulledImages,
        runtime: RuntimeReceiver,
        machine_reader: MachineReader,
        events: NodeEventRecorder,
    ) -> Self {
        ImageGcManager {
            policy,
            pulled,
            runtime,
            machine_reader,
            events,
            records: Mutex::default(),
            list: watch::Sender::new(Arc::default()),
        }
    }

    /// The newest list of images.
    pub(super) fn images(&self) -> watch::Receiver<Arc<Vec<Image>>> {
        self.list.subscribe()
    }

    pub(super) async fn run(&self, stop: Stop) {
        let collect_periodically = async {
            let mut runtime = self.runtime.clone();
            let mut last_collection = None;
            loop {
                let Ok(found) = runtime.wait_for(Option::is_some).await.map(|found| found.clone()) else {
                    return;
                };
                if let Some(found) = found {
                    self.list_and_collect(&*found, &mut last_collection).await;
                }
                sleep(LIST_PERIOD).await;
            }
        };
        stop.unless_stopped(collect_periodically).await;
    }

    async fn list_and_collect(&self, runtime: &dyn Runtime, last_collection: &mut Option<Instant>) {
        match with_timeout(LIST_TIMEOUT, "list of images", runtime.list_images()).await {
            Ok(images) => self.list.send_if_modified(|current| {
                let is_new = **current != images;
                if is_new {
                    *current = Arc::new(images);
                }
                is_new
            }),
            Err(error) => {
                tracing::warn!(%error, "failed to list images");
                return;
            }
        };
        if last_collection.is_none_or(|at| at.elapsed() >= self.policy.period) {
            *last_collection = Some(Instant::now());
            if let Err(error) = self.garbage_collect(runtime).await {
                tracing::warn!(%error, "image garbage collection failed");
            }
        }
    }

    /// Removes unused images if disk usage is above the high threshold.
    // upstream: pkg/kubelet/images/image_gc_manager.go GarbageCollect
    async fn garbage_collect(&self, runtime: &dyn Runtime) -> Result<(), ImageGcError> {
        let image_fs = with_timeout(LIST_TIMEOUT, "file system of images", runtime.image_fs_info()).await?;
        let reader = self.machine_reader.clone();
        let disk = run_blocking(move || reader.fs_info(&image_fs.path)).await;
        let Some(disk) = disk.filter(|disk| disk.capacity > 0) else {
            return Err(self.record_failure("InvalidDiskCapacity", ImageGcError::InvalidCapacity));
        };
        let available = disk.available.min(disk.capacity);
        let Some(amount_to_free) = bytes_to_free(self.policy, disk.capacity, available) else {
            self.detect_images(runtime).await?;
            return Ok(());
        };
        let freed = self.free_space(runtime, amount_to_free).await?;
        if freed < amount_to_free {
            let error = ImageGcError::InsufficientSpace {
                used_percent: used_percent(disk.capacity, available),
                capacity: disk.capacity,
                freed,
            };
            return Err(self.record_failure("FreeDiskSpaceFailed", error));
        }
        Ok(())
    }

    /// Records an event about an error, and returns the error.
    fn record_failure(&self, reason: &str, error: ImageGcError) -> ImageGcError {
        self.events.event(EventType::Warning, reason, error.to_string());
        error
    }

    /// Removes all unused images, regardless of disk usage.
    // upstream: pkg/kubelet/images/image_gc_manager.go DeleteUnusedImages
    pub(super) async fn delete_unused_images(&self) -> Result<(), RuntimeError> {
        let Some(runtime) = self.runtime.borrow().clone() else {
            return Ok(());
        };
        self.free_space(&*runtime, u64::MAX).await.map(drop)
    }

    /// Removes unused images until `bytes_to_free` bytes are freed. Returns the number of freed bytes.
    // upstream: pkg/kubelet/images/image_gc_manager.go freeSpace
    async fn free_space(&self, runtime: &dyn Runtime, bytes_to_free: u64) -> Result<u64, RuntimeError> {
        let used = self.detect_images(runtime).await?;
        let mut records = self.records.lock().await;
        let mut freed = 0;
        let candidates = eviction_order(&records, &used, Instant::now(), self.policy.min_age);
        for id in candidates.into_iter().filter(|id| self.pulled.contains(id)) {
            if freed >= bytes_to_free {
                break;
            }
            let bytes = records.get(&id).map_or(0, |record| record.size);
            match with_timeout(REMOVE_TIMEOUT, "removal of an image", runtime.remove_image(&id)).await {
                Ok(()) => {
                    tracing::info!(image = id, bytes, "removed unused image");
                    records.remove(&id);
                    freed += bytes;
                }
                // Another client of the runtime may have started to use the image.
                Err(error) => tracing::info!(image = id, %error, "failed to remove image"),
            }
        }
        Ok(freed)
    }

    /// Updates the records. Returns the IDs of the images in use.
    // upstream: pkg/kubelet/images/image_gc_manager.go detectImages
    async fn detect_images(&self, runtime: &dyn Runtime) -> Result<Vec<String>, RuntimeError> {
        let (images, containers, others) = tokio::try_join!(
            with_timeout(LIST_TIMEOUT, "list of images", runtime.list_images()),
            with_timeout(LIST_TIMEOUT, "list of containers", runtime.list_containers()),
            with_timeout(LIST_TIMEOUT, "list of images in use", runtime.images_in_use()),
        )?;
        let own = containers
            .into_iter()
            .flat_map(|container| [container.image_id, container.image]);
        let names: Vec<String> = own.chain(others).collect();
        self.pulled
            .retain(|id| images.iter().any(|image| image.id == id))
            .await;
        let mut records = self.records.lock().await;
        Ok(update_records(&mut records, &images, &names, Instant::now()))
    }
}

async fn with_timeout<T>(
    limit: Duration,
    operation: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    timeout(limit, call).await.unwrap_or_else(|_| {
        Err(RuntimeError::Timeout {
            what: operation.to_owned(),
            after: limit,
        })
    })
}

/// Updates the records. Returns the IDs of the images that containers use under one of `names`.
fn update_records(
    records: &mut BTreeMap<String, ImageRecord>,
    images: &[Image],
    names: &[String],
    now: Instant,
) -> Vec<String> {
    records.retain(|id, _| images.iter().any(|image| image.id == *id));
    let mut used = Vec::new();
    for image in images {
        let record = records.entry(image.id.clone()).or_insert(ImageRecord {
            first_detected: now,
            last_used: None,
            size: 0,
            pinned: false,
        });
        record.size = image.size;
        record.pinned = image.pinned;
        if names.iter().any(|name| has_name(image, name)) {
            record.last_used = Some(now);
            used.push(image.id.clone());
        }
    }
    used
}

/// Whether `name` is the ID, a tag or a digest of an image.
fn has_name(image: &Image, name: &str) -> bool {
    // Runtimes prefix IDs with a scheme, such as `docker://`.
    let bare = name.split_once("://").map_or(name, |(_, bare)| bare);
    let mut names = image.digests.iter().chain(&image.tags).chain([&image.id]);
    names.any(|name| name == bare)
}

/// The images that may be removed, least recently used first.
// upstream: pkg/kubelet/images/image_gc_manager.go imagesInEvictionOrder
fn eviction_order(
    records: &BTreeMap<String, ImageRecord>,
    used: &[String],
    now: Instant,
    min_age: Duration,
) -> Vec<String> {
    let is_removable = |(id, record): &(&String, &ImageRecord)| {
        let is_old = now.saturating_duration_since(record.first_detected) >= min_age;
        is_old && !record.pinned && !used.contains(id)
    };
    let mut removable: Vec<_> = records.iter().filter(is_removable).collect();
    removable.sort_by_key(|(_, record)| (record.last_used, record.first_detected));
    removable.into_iter().map(|(id, _)| id.clone()).collect()
}

fn used_percent(capacity: u64, available: u64) -> u64 {
    let percent = u128::from(available) * 100 / u128::from(capacity.max(1));
    100 - u64::try_from(percent).unwrap_or(100).min(100)
}

/// Number of bytes to free to reach the low threshold; `None` below the high threshold.
fn bytes_to_free(policy: ImageGcPolicy, capacity: u64, available: u64) -> Option<u64> {
    if policy.high_threshold_percent >= 100
        || used_percent(capacity, available) < u64::from(policy.high_threshold_percent)
    {
        return None;
    }
    let target = u128::from(capacity) * u128::from(100 - policy.low_threshold_percent.min(100)) / 100;
    let target = u64::try_from(target).unwrap_or(u64::MAX);
    target.checked_sub(available).filter(|amount| *amount > 0)
}

/// Formats a size with one decimal place.
// upstream: pkg/kubelet/images/image_gc_manager.go formatSize
fn format_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if bytes >= 1 << shift {
            let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use kubecontroller::{events::EventBroadcaster, testing::FakeApi};

    use super::*;
    use crate::runtime::fake::{self, FakeRuntime};

    fn image(id: &str) -> Image {
        Image {
            id: id.to_owned(),
            tags: vec![format!("{id}:latest")],
            size: 10,
            ..Image::default()
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn orders_images_by_last_use() {
        let begin = Instant::now();
        let after = |minutes| begin + Duration::from_mins(minutes);
        let age = Duration::from_mins(2);
        let mut records = BTreeMap::new();
        let pinned = Image {
            pinned: true,
            ..image("pinned")
        };
        let first = [image("a"), image("b"), image("c"), pinned.clone()];
        let used = update_records(
            &mut records,
            &first,
            &names(&["a:latest", "docker://b"]),
            after(0),
        );
        assert_eq!(used, ["a", "b"]);
        assert!(
            eviction_order(&records, &used, after(1), age).is_empty(),
            "younger than the minimum age"
        );
        let second = [image("a"), image("b"), image("c"), image("new"), pinned];
        let used = update_records(&mut records, &second, &names(&["a:latest"]), after(3));
        assert_eq!(used, ["a"]);
        assert_eq!(eviction_order(&records, &used, after(3), age), ["c", "b"]);
        let used = update_records(&mut records, &[image("a")], &[], after(4));
        assert!(used.is_empty());
        assert_eq!(records.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn removes_only_unused_images_that_this_node_pulled() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = FakeRuntime::new(fake::clock())
            .with_image("built:latest")
            .with_image("pulled:latest")
            .with_image("shared:latest")
            .with_foreign_container("shared:latest");
        let pulled = PulledImages::open(directory.path());
        for name in ["pulled:latest", "shared:latest"] {
            pulled
                .add(&runtime.image_status(name).await.unwrap().unwrap())
                .await;
        }
        let api = FakeApi::new();
        let recorder = EventBroadcaster::new(api.client()).recorder("kubelet");
        let manager = ImageGcManager::new(
            ImageGcPolicy::default(),
            pulled,
            watch::Sender::new(Some(Arc::new(runtime.clone()) as Arc<dyn Runtime>)).subscribe(),
            MachineReader::at(directory.path()),
            NodeEventRecorder::new(recorder, "n"),
        );
        manager.delete_unused_images().await.unwrap();
        tokio::time::advance(Duration::from_hours(1)).await;
        manager.delete_unused_images().await.unwrap();
        let left: Vec<_> = runtime
            .list_images()
            .await
            .unwrap()
            .into_iter()
            .flat_map(|image| image.tags)
            .collect();
        assert_eq!(left, ["built:latest", "shared:latest"]);
    }

    #[test]
    fn frees_down_to_low_threshold() {
        let policy = ImageGcPolicy::default();
        assert_eq!(bytes_to_free(policy, 1000, 160), None);
        assert_eq!(bytes_to_free(policy, 1000, 150), Some(50));
        assert_eq!(bytes_to_free(policy, 1000, 0), Some(200));
        assert_eq!(
            bytes_to_free(
                ImageGcPolicy {
                    high_threshold_percent: 100,
                    ..policy
                },
                1000,
                0
            ),
            None
        );
    }

    #[test]
    fn formats_sizes_like_upstream() {
        for (bytes, text) in [(12, "12 B"), (1536, "1.5 KiB"), (252 << 30, "252.0 GiB")] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
