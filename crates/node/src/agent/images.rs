//! Images: told in the Node, and thrown away when the disk fills up.
//!
//! Promises: an image is thrown away only if this node pulled it (upstream's kubelet takes a machine's images for its own; here
//! they may be those of a user or of another cluster), if no container of anybody uses it, if it is not pinned, and if it was
//! there for a while: one that was just pulled is about to be used. Those that were not used for longest go first, and no more than needed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubecontroller::{events::EventType, manager::Stop};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, timeout},
};

use super::{ImageLimits, link::RuntimeWatch, machine::Eyes, node::NodeEvents};
use crate::{
    images::PulledImages,
    runtime::{Image, Runtime, RuntimeError},
};

/// How often images are listed.
const LIST: Duration = Duration::from_secs(30);
/// How long a runtime may take for a list.
const LIMIT: Duration = Duration::from_secs(30);
/// How long removing an image may take.
const REMOVE: Duration = Duration::from_mins(2);

/// Knows the images, and throws them away.
pub(super) struct ImageKeeper {
    limits: ImageLimits,
    pulled: PulledImages,
    runtime: RuntimeWatch,
    eyes: Eyes,
    events: NodeEvents,
    /// What is known of each image, by its id.
    records: Mutex<BTreeMap<String, Record>>,
    list: watch::Sender<Arc<Vec<Image>>>,
}

/// What is known of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    first_seen: Instant,
    last_used: Option<Instant>,
    size: u64,
    pinned: bool,
}

impl ImageKeeper {
    pub(super) fn new(
        limits: ImageLimits,
        pulled: PulledImages,
        runtime: RuntimeWatch,
        eyes: Eyes,
        events: NodeEvents,
    ) -> Self {
        ImageKeeper {
            limits,
            pulled,
            runtime,
            eyes,
            events,
            records: Mutex::default(),
            list: watch::Sender::new(Arc::default()),
        }
    }

    /// The images, as they were seen last.
    pub(super) fn images(&self) -> watch::Receiver<Arc<Vec<Image>>> {
        self.list.subscribe()
    }

    pub(super) async fn run(&self, stop: Stop) {
        let keep = async {
            let mut runtime = self.runtime.clone();
            let mut collected = None;
            loop {
                let Ok(found) = runtime.wait_for(Option::is_some).await.map(|found| found.clone()) else {
                    return;
                };
                if let Some(found) = found {
                    self.turn(&*found, &mut collected).await;
                }
                sleep(LIST).await;
            }
        };
        stop.unless_stopped(keep).await;
    }

    async fn turn(&self, runtime: &dyn Runtime, collected: &mut Option<Instant>) {
        match limited(LIMIT, "list of images", runtime.images()).await {
            Ok(images) => self.list.send_if_modified(|known| {
                let is_new = **known != images;
                if is_new {
                    *known = Arc::new(images);
                }
                is_new
            }),
            Err(error) => {
                tracing::warn!(%error, "cannot list images");
                return;
            }
        };
        if collected.is_none_or(|at| at.elapsed() >= self.limits.period) {
            *collected = Some(Instant::now());
            if let Err(problem) = self.collect(runtime).await {
                tracing::warn!(problem, "cannot make room by throwing images away");
            }
        }
    }

    /// Throws images away if the disk is too full.
    async fn collect(&self, runtime: &dyn Runtime) -> Result<(), String> {
        let told = limited(LIMIT, "file system of images", runtime.image_filesystem()).await;
        let told = told.map_err(|error| error.to_string())?;
        let disk = self.eyes.disk(&told.path).unwrap_or_default();
        if disk.capacity == 0 {
            let problem = "invalid capacity 0 on image filesystem".to_owned();
            self.events
                .tell(EventType::Warning, "InvalidDiskCapacity", problem.clone());
            return Err(problem);
        }
        let available = disk.available.min(disk.capacity);
        let Some(wanted) = to_free(self.limits, disk.capacity, available) else {
            return self
                .detect(runtime)
                .await
                .map(drop)
                .map_err(|error| error.to_string());
        };
        let freed = self.free(runtime, wanted).await?;
        if freed < wanted {
            let percent = used_percent(disk.capacity, available);
            let problem = format!(
                "Insufficient free disk space on the node's image filesystem ({percent}% of {} used). Failed to free \
                 sufficient space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be \
                 used by active images, logs, volumes, or other data.",
                size(disk.capacity)
            );
            self.events
                .tell(EventType::Warning, "FreeDiskSpaceFailed", problem.clone());
            return Err(problem);
        }
        Ok(())
    }

    /// Throws all images away that nobody uses.
    pub(super) async fn remove_unused(&self) -> Result<(), String> {
        let Some(runtime) = self.runtime.borrow().clone() else {
            return Ok(());
        };
        self.free(&*runtime, u64::MAX).await.map(drop)
    }

    /// How many bytes images took that were thrown away.
    async fn free(&self, runtime: &dyn Runtime, wanted: u64) -> Result<u64, String> {
        let used = self.detect(runtime).await.map_err(|error| error.to_string())?;
        let mut records = self.records.lock().await;
        let mut freed = 0;
        let all = order(&records, &used, Instant::now(), self.limits.min_age);
        for id in all.into_iter().filter(|id| self.pulled.contains(id)) {
            if freed >= wanted {
                break;
            }
            let bytes = records.get(&id).map_or(0, |record| record.size);
            match limited(REMOVE, "removal of an image", runtime.remove_image(&id)).await {
                Ok(()) => {
                    tracing::info!(image = id, bytes, "removed an image to make room");
                    records.remove(&id);
                    freed += bytes;
                }
                // Somebody else may use it; the others may go.
                Err(error) => tracing::info!(image = id, %error, "an image could not be removed"),
            }
        }
        Ok(freed)
    }

    /// Looks which images there are, and gives those that are used.
    async fn detect(&self, runtime: &dyn Runtime) -> Result<Vec<String>, RuntimeError> {
        let (images, containers, others) = tokio::try_join!(
            limited(LIMIT, "list of images", runtime.images()),
            limited(LIMIT, "list of containers", runtime.containers()),
            limited(LIMIT, "list of images in use", runtime.images_in_use()),
        )?;
        let own = containers
            .into_iter()
            .flat_map(|container| [container.image_id, container.image]);
        let names: Vec<String> = own.chain(others).collect();
        self.pulled
            .keep_only(|id| images.iter().any(|image| image.id == id));
        let mut records = self.records.lock().await;
        Ok(renew(&mut records, &images, &names, Instant::now()))
    }
}

async fn limited<T>(
    limit: Duration,
    what: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    timeout(limit, call).await.unwrap_or_else(|_| {
        Err(RuntimeError::Timeout {
            what: what.to_owned(),
            after: limit,
        })
    })
}

/// Brings the records up to date, and gives the ids of images that are used under any of these names.
fn renew(
    records: &mut BTreeMap<String, Record>,
    images: &[Image],
    names: &[String],
    now: Instant,
) -> Vec<String> {
    records.retain(|id, _| images.iter().any(|image| image.id == *id));
    let mut used = Vec::new();
    for image in images {
        let record = records.entry(image.id.clone()).or_insert(Record {
            first_seen: now,
            last_used: None,
            size: 0,
            pinned: false,
        });
        record.size = image.size;
        record.pinned = image.pinned;
        if names.iter().any(|name| is_named(image, name)) {
            record.last_used = Some(now);
            used.push(image.id.clone());
        }
    }
    used
}

/// Whether a container names an image, by any of its names.
fn is_named(image: &Image, name: &str) -> bool {
    // Runtimes put their own name in front of ids.
    let bare = name.split_once("://").map_or(name, |(_, bare)| bare);
    let mut known = image.digests.iter().chain(&image.tags).chain([&image.id]);
    known.any(|known| known == bare)
}

/// The images that may go, those that were not used for longest first.
fn order(
    records: &BTreeMap<String, Record>,
    used: &[String],
    now: Instant,
    min_age: Duration,
) -> Vec<String> {
    let may_go = |(id, record): &(&String, &Record)| {
        let is_old = now.saturating_duration_since(record.first_seen) >= min_age;
        is_old && !record.pinned && !used.contains(id)
    };
    let mut free: Vec<_> = records.iter().filter(may_go).collect();
    free.sort_by_key(|(_, record)| (record.last_used, record.first_seen));
    free.into_iter().map(|(id, _)| id.clone()).collect()
}

fn used_percent(capacity: u64, available: u64) -> u64 {
    let percent = u128::from(available) * 100 / u128::from(capacity.max(1));
    100 - u64::try_from(percent).unwrap_or(100).min(100)
}

/// How many bytes must go, if the disk is too full.
fn to_free(limits: ImageLimits, capacity: u64, available: u64) -> Option<u64> {
    if limits.high >= 100 || used_percent(capacity, available) < u64::from(limits.high) {
        return None;
    }
    let wanted = u128::from(capacity) * u128::from(100 - limits.low.min(100)) / 100;
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    wanted.checked_sub(available).filter(|wanted| *wanted > 0)
}

/// A size for people, to a tenth.
fn size(bytes: u64) -> String {
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

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn images_that_were_not_used_for_longest_go_first() {
        let begin = Instant::now();
        let after = |minutes| begin + Duration::from_mins(minutes);
        let age = Duration::from_mins(2);
        let mut records = BTreeMap::new();
        let pinned = Image {
            pinned: true,
            ..image("pinned")
        };
        let first = [image("a"), image("b"), image("c"), pinned.clone()];
        let used = renew(
            &mut records,
            &first,
            &names(&["a:latest", "docker://b"]),
            after(0),
        );
        assert_eq!(used, ["a", "b"]);
        assert!(order(&records, &used, after(1), age).is_empty(), "they are new");
        let second = [image("a"), image("b"), image("c"), image("new"), pinned];
        let used = renew(&mut records, &second, &names(&["a:latest"]), after(3));
        assert_eq!(used, ["a"]);
        assert_eq!(order(&records, &used, after(3), age), ["c", "b"]);
        let used = renew(&mut records, &[image("a")], &[], after(4));
        assert!(used.is_empty());
        assert_eq!(records.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn only_images_that_this_node_pulled_and_nobody_uses_go() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = FakeRuntime::new(fake::clock())
            .with_image("built:latest")
            .with_image("pulled:latest")
            .with_image("shared:latest")
            .with_foreign_container("shared:latest");
        let pulled = PulledImages::open(folder.path());
        for name in ["pulled:latest", "shared:latest"] {
            pulled.add(&runtime.image(name).await.unwrap().unwrap());
        }
        let api = FakeApi::new();
        let recorder = EventBroadcaster::new(api.client()).recorder("kubelet");
        let keeper = ImageKeeper::new(
            ImageLimits::default(),
            pulled,
            watch::Sender::new(Some(Arc::new(runtime.clone()) as Arc<dyn Runtime>)).subscribe(),
            Eyes::at(folder.path()),
            NodeEvents::new(recorder, "n"),
        );
        keeper.remove_unused().await.unwrap();
        tokio::time::advance(Duration::from_hours(1)).await;
        keeper.remove_unused().await.unwrap();
        let left: Vec<_> = runtime
            .images()
            .await
            .unwrap()
            .into_iter()
            .flat_map(|image| image.tags)
            .collect();
        assert_eq!(left, ["built:latest", "shared:latest"]);
    }

    #[test]
    fn no_more_goes_than_needed() {
        let limits = ImageLimits::default();
        assert_eq!(to_free(limits, 1000, 160), None);
        assert_eq!(to_free(limits, 1000, 150), Some(50));
        assert_eq!(to_free(limits, 1000, 0), Some(200));
        assert_eq!(to_free(ImageLimits { high: 100, ..limits }, 1000, 0), None);
    }

    #[test]
    fn sizes_are_written_for_people() {
        for (bytes, text) in [(12, "12 B"), (1536, "1.5 KiB"), (252 << 30, "252.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
