//! Volumes: what is mounted into containers, and kept up to date.
//!
//! ```text
//! pod, cluster --recipe--> what has to be on disk --set_up--> a folder --container--> mounts
//!
//! empty_dir host_path config_map secret projected downward claim    the types
//! files atomic                                                      files of the API, replaced at once
//! beneath tree                                                      paths and folders that containers change meanwhile
//! mount_table ownership usage tear_down                             mounts, groups, sizes, the end
//! ```
//!
//! Promises:
//! - Preparing a pod again changes nothing but what is out of date. Its volumes are tried each for itself.
//! - What a container puts into a volume leads nobody out of it: not with links, not with `..`, and not while we look.
//! - Nothing is removed through a link or a mount. What the node did not mount it does not unmount.
//! - Secrets and tokens are in memory only, where the machine lets the node mount it.
//! - No thread of the runtime waits for a disk.

mod atomic;
mod beneath;
mod claim;
mod config_map;
mod container;
mod downward;
mod empty_dir;
mod error;
mod files;
mod host_path;
mod layout;
mod mount_table;
mod nested;
mod ownership;
mod projected;
mod recipe;
mod secret;
mod set_up;
mod tear_down;
#[cfg(test)]
mod tests;
mod tree;
mod trust_bundle;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use k8s_openapi::api::core::v1::{Container, Pod};
use kubecontroller::Clock;
use tokio::{sync::OwnedMutexGuard, task::spawn_blocking};

pub use self::{
    error::{Failure, Trouble, VolumeError},
    layout::Layout,
    tear_down::{remove_folder, remove_node_folder},
    usage::VolumeUsage,
};
use self::{
    ownership::Group,
    recipe::{Kitchen, Named},
    set_up::{Hands, Place, Ready},
};
use crate::{Facts, PodIdentity, runtime::Mount, sources::Sources};

/// A file of variables that is longer makes no sense.
const LONGEST_FILE: u64 = 1 << 20;

/// The volumes of all pods of this node. Clones are the same.
#[derive(Clone)]
pub struct Volumes {
    inner: Arc<Inner>,
}

struct Inner {
    layout: Layout,
    sources: Arc<dyn Sources>,
    clock: Clock,
    /// By uid. Locked while a pod's folders are changed: nobody else does.
    pods: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Known>>>>,
    /// Volumes of the cluster that one pod may use at a time, and the uid of the one that does.
    taken: Mutex<BTreeMap<String, String>>,
    told_of_disk: AtomicBool,
}

/// What is known of a pod's volumes. A restart of the agent forgets it, and preparing the pod finds it again.
#[derive(Default)]
struct Known {
    /// Volumes that can be mounted, by name.
    ready: BTreeMap<String, Ready>,
    /// Those whose recipe never changes once it worked, so that nobody needs to be asked again.
    settled: BTreeSet<String>,
}

// --- Volumes ---

impl Volumes {
    /// Volumes under the node's folder. Nothing is made yet.
    pub fn new(root: PathBuf, sources: Arc<dyn Sources>, clock: Clock) -> Self {
        let inner = Inner {
            layout: Layout::new(root),
            sources,
            clock,
            pods: Mutex::default(),
            taken: Mutex::default(),
            told_of_disk: AtomicBool::new(false),
        };
        Volumes {
            inner: Arc::new(inner),
        }
    }

    /// Where things of pods are.
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// Makes the volumes that a pod's containers mount, and brings those that are there up to date. Those that nobody mounts are
    /// not made. To be called before a container is made, and from time to time while the pod runs. Files may tell fields of the
    /// pod, but not yet its addresses.
    pub async fn prepare(&self, pod: &Pod, facts: &Facts, _pod_ips: &[IpAddr]) -> Result<(), VolumeError> {
        let identity = PodIdentity::of(pod);
        self.inner.sources.keep(pod);
        let mut known = self.lock(&identity.uid).await;
        let (recipes, mut failures) = self.recipes(pod, facts, &mut known).await;
        let group = Group::of(pod);
        let inner = Arc::clone(&self.inner);
        // The lock goes with the work: who drops this future does not stop the thread.
        let work = move || {
            let folder = inner.layout.pod(&identity.uid);
            set_up::private_folder(&folder)
                .map_err(|error| VolumeError::disk("cannot make", &folder, error))?;
            let hands = Hands {
                now: inner.clock.now(),
                group,
                told_of_disk: &inner.told_of_disk,
            };
            for (volume, Named { name, recipe, .. }) in recipes {
                match hands.set_up(&recipe) {
                    Ok(ready) => {
                        if recipe.is_settled() {
                            known.settled.insert(volume.clone());
                        }
                        known.ready.insert(volume, ready);
                    }
                    Err(why) => {
                        let trouble = Trouble::step("SetUp", &name, &why);
                        failures.push(Failure { volume, trouble });
                    }
                }
            }
            failures.sort_by(|one, other| one.volume.cmp(&other.volume));
            if failures.is_empty() {
                Ok(())
            } else {
                Err(VolumeError::SetUp(failures))
            }
        };
        spawn_blocking(work).await.map_err(VolumeError::given_up)?
    }

    /// What a container has mounted, of volumes that were prepared. Parts of volumes are made and held fast.
    ///
    /// The image of an image volume is told as the pod names it; it has to be brought before the container is made.
    pub async fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        environment: &[(String, String)],
    ) -> Result<Vec<Mount>, VolumeError> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let known = self.lock(&uid).await;
        let wanted = container::wanted(container, environment, &known.ready).map_err(VolumeError::Mount)?;
        let inner = Arc::clone(&self.inner);
        let name = container.name.clone();
        let work = move || {
            // Held until it is done: see `prepare`.
            let _known = known;
            let mounts = wanted.into_iter();
            let mounts = mounts.map(|wanted| container::mount(&inner.layout, &uid, &name, wanted));
            mounts.collect::<Result<Vec<_>, _>>().map_err(VolumeError::Mount)
        };
        spawn_blocking(work).await.map_err(VolumeError::given_up)?
    }

    /// Takes away the volumes of a pod whose containers have ended for good. What its containers said in the end, and its
    /// `/etc/hosts`, stay until [`Volumes::tear_down`].
    pub async fn release(&self, pod: &PodIdentity) -> Result<(), VolumeError> {
        self.end(pod, tear_down::release).await
    }

    /// Takes away everything of a pod that is gone. Doing it again, or for a pod that never was, succeeds.
    pub async fn tear_down(&self, pod: &PodIdentity) -> Result<(), VolumeError> {
        self.end(pod, tear_down::tear_down).await
    }

    /// The uids of all pods that have folders here, also from before a restart.
    pub async fn left_behind(&self) -> Result<Vec<String>, VolumeError> {
        let inner = Arc::clone(&self.inner);
        let work = spawn_blocking(move || tear_down::left_behind(&inner.layout));
        work.await.map_err(VolumeError::given_up)?
    }

    /// What the volumes of a pod take. One that goes meanwhile is left out.
    pub async fn usage(&self, pod: &PodIdentity) -> Result<Vec<VolumeUsage>, VolumeError> {
        let ready = match self.inner.pods().get(&pod.uid) {
            Some(known) => Arc::clone(known),
            None => return Ok(Vec::new()),
        };
        let ready = ready.lock().await.ready.clone();
        let work = move || {
            let mut usages = Vec::new();
            for (volume, ready) in ready {
                let Place::Host(path) = &ready.place else {
                    continue;
                };
                // The machine's own folders may be as large as the machine.
                if !ready.is_own {
                    continue;
                }
                match usage::of(&volume, ready.is_own, path) {
                    Ok(usage) => usages.push(usage),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(VolumeError::disk("cannot count", path, error)),
                }
            }
            Ok(usages)
        };
        spawn_blocking(work).await.map_err(VolumeError::given_up)?
    }

    /// A file in a volume that was prepared; none if it is not there.
    pub(crate) async fn read(
        &self,
        pod: &Pod,
        volume: &str,
        path: &str,
    ) -> Result<Option<Vec<u8>>, VolumeError> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let place = self
            .lock(&uid)
            .await
            .ready
            .get(volume)
            .map(|ready| ready.place.clone());
        let Some(Place::Host(folder)) = place else {
            let why = format!("cannot find the volume {volume:?} referenced by FileKeyRef");
            return Err(VolumeError::Mount(why));
        };
        let path = path.to_owned();
        let work = move || {
            let read = beneath::open_file(&folder, Path::new(&path)).and_then(|file| {
                let mut bytes = Vec::new();
                file.take(LONGEST_FILE).read_to_end(&mut bytes)?;
                Ok(bytes)
            });
            match read {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(VolumeError::disk("cannot read", Path::new(&path), error)),
            }
        };
        spawn_blocking(work).await.map_err(VolumeError::given_up)?
    }

    /// The recipes of the volumes that a pod's containers use, and what stands against the others.
    async fn recipes(
        &self,
        pod: &Pod,
        facts: &Facts,
        known: &mut Known,
    ) -> (Vec<(String, Named)>, Vec<Failure>) {
        let kitchen = Kitchen {
            pod,
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
            layout: &self.inner.layout,
            sources: &*self.inner.sources,
            facts,
        };
        let used = used(pod);
        // No closure is held while a recipe is waited for: with one, nobody could spawn this.
        let spec = pod.spec.as_ref();
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let mut recipes = Vec::new();
        let mut failures = Vec::new();
        for volume in volumes {
            if !used.contains(volume.name.as_str()) || known.settled.contains(&volume.name) {
                continue;
            }
            let name = volume.name.clone();
            let recipe = kitchen.recipe(volume).await;
            match recipe.and_then(|named| self.take(kitchen.uid, named)) {
                Ok(named) => recipes.push((name, named)),
                Err(trouble) => failures.push(Failure {
                    volume: name,
                    trouble,
                }),
            }
        }
        (recipes, failures)
    }

    /// Takes a volume that one pod may use at a time.
    fn take(&self, uid: &str, named: Named) -> Result<Named, Trouble> {
        if !named.is_exclusive {
            return Ok(named);
        }
        let mut taken = self.taken();
        let user = taken.entry(named.name.clone()).or_insert_with(|| uid.to_owned());
        if user == uid {
            return Ok(named);
        }
        let why = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
        Err(Trouble::step("SetUp", &named.name, why))
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn end(
        &self,
        pod: &PodIdentity,
        work: fn(&Layout, &str) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let mut known = self.lock(&pod.uid).await;
        let inner = Arc::clone(&self.inner);
        let uid = pod.uid.clone();
        let work = move || {
            *known = Known::default();
            work(&inner.layout, &uid)?;
            // Before the lock is free: who waits for it finds that another one counts.
            inner.pods().remove(&uid);
            drop(known);
            Ok(())
        };
        spawn_blocking(work).await.map_err(VolumeError::given_up)??;
        self.inner.sources.forget(pod);
        self.taken().retain(|_, uid| *uid != pod.uid);
        Ok(())
    }

    /// A pod's volumes, for one at a time.
    async fn lock(&self, uid: &str) -> OwnedMutexGuard<Known> {
        loop {
            let known = Arc::clone(self.inner.pods().entry(uid.to_owned()).or_default());
            let guard = Arc::clone(&known).lock_owned().await;
            // Who ended the pod meanwhile took the lock out of the table; another one counts now.
            if self
                .inner
                .pods()
                .get(uid)
                .is_some_and(|current| Arc::ptr_eq(current, &known))
            {
                return guard;
            }
        }
    }
}

// --- Inner ---

impl Inner {
    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Arc<tokio::sync::Mutex<Known>>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of volumes that containers mount, or read their environment from.
fn used(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else {
        return BTreeSet::new();
    };
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| (&container.volume_mounts, &container.env));
    let regular = spec
        .containers
        .iter()
        .map(|container| (&container.volume_mounts, &container.env));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|container| (&container.volume_mounts, &container.env));
    let mut names = BTreeSet::new();
    for (mounts, variables) in init.chain(regular).chain(ephemeral) {
        names.extend(mounts.iter().flatten().map(|mount| mount.name.as_str()));
        let sources = variables
            .iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref());
        let files = sources.filter_map(|source| source.file_key_ref.as_ref());
        names.extend(files.map(|file| file.volume_name.as_str()));
    }
    names
}
