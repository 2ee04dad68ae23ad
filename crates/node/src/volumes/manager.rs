//! The volumes of all pods of the node.
// upstream: pkg/kubelet/volumemanager/volume_manager.go volumeManager

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use kubecontroller::Clock;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

use super::{
    container_mounts,
    create_directory::create_private_directory,
    error::{MountFailure, VolumeFailure, VolumeManagerError},
    ownership::FsGroup,
    persistent_volume_claim,
    plugin::{MountedVolume, Mounter, MounterArgs, VolumeContext, VolumeLocation, VolumePluginManager},
    plugins::probe_volume_plugins,
    pod_directories::PodDirectories,
    safe_open,
    spec::VolumeSpec,
    tear_down,
    usage::{self, VolumeUsage},
};
use crate::{NodeFacts, PodIdentity, blocking::run_blocking, runtime::Mount, sources::ObjectSources};

/// Size limit of a file read for `fileKeyRef`.
const MAX_ENV_FILE_BYTES: u64 = 1 << 20;

/// The volumes of all pods of this node. Clones share their state.
#[derive(Clone)]
pub struct VolumeManager {
    shared: Arc<VolumeManagerState>,
}

struct VolumeManagerState {
    directories: PodDirectories,
    plugins: VolumePluginManager,
    sources: Arc<dyn ObjectSources>,
    clock: Clock,
    /// By pod UID. A pod's lock is held while its objects are read and its directories are changed (single flight): one caller mounts
    /// the volumes, the others wait and find them mounted.
    pods: Mutex<PodVolumesByUid>,
    /// `ReadWriteOncePod` PersistentVolumes in use, and the UID of the pod that uses each.
    exclusive_volumes: Mutex<BTreeMap<String, String>>,
    /// Whether the warning that secrets are on disk was logged: once per process is enough.
    warned_secrets_on_disk: AtomicBool,
}

type PodVolumesByUid = BTreeMap<String, Arc<tokio::sync::Mutex<PodVolumes>>>;

/// The volumes of one pod. A restart of the agent drops this; setting up the pod again recovers it from disk.
#[derive(Default)]
struct PodVolumes {
    /// Volumes that containers can mount, by name.
    mounted: BTreeMap<String, MountedVolume>,
    /// Mounted volumes whose plugin does not require a remount. Their objects are not read from the API again.
    no_remount: BTreeSet<String>,
}

/// A volume that is ready to be set up.
struct VolumeToMount {
    /// Name of the volume in the pod.
    name: String,
    /// Name of its [`VolumeSpec`], for messages.
    spec_name: String,
    requires_remount: bool,
    mounter: Box<dyn Mounter>,
}

// --- VolumeManager ---

impl VolumeManager {
    /// Volumes below the data directory of the node. Creates nothing yet.
    pub fn new(root: PathBuf, sources: Arc<dyn ObjectSources>, clock: Clock) -> Self {
        let shared = VolumeManagerState {
            directories: PodDirectories::new(root),
            plugins: VolumePluginManager::new(probe_volume_plugins()),
            sources,
            clock,
            pods: Mutex::default(),
            exclusive_volumes: Mutex::default(),
            warned_secrets_on_disk: AtomicBool::new(false),
        };
        VolumeManager {
            shared: Arc::new(shared),
        }
    }

    /// Paths of pod directories.
    pub fn directories(&self) -> &PodDirectories {
        &self.shared.directories
    }

    /// Sets up the volumes that containers of the pod use, and updates those that are already mounted. Unused volumes are not
    /// created. Call it before creating a container, and periodically while the pod runs.
    // upstream: pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount
    pub async fn mount_pod_volumes(&self, pod: &Pod, facts: &NodeFacts) -> Result<(), VolumeManagerError> {
        let identity = PodIdentity::of(pod);
        self.shared.sources.register_pod(pod);
        let mut volumes = self.lock(&identity.uid).await;
        let (to_mount, mut failures) = self.volumes_to_mount(pod, facts, &volumes).await;
        let fs_group = FsGroup::of(pod);
        let shared = Arc::clone(&self.shared);
        // The closure owns the lock: dropping the future of this function does not stop a blocking thread.
        let set_up_all = move || {
            let directory = shared.directories.pod(&identity.uid);
            create_private_directory(&directory)
                .map_err(|error| VolumeManagerError::io("failed to create", &directory, error))?;
            let args = MounterArgs {
                now: shared.clock.now(),
                fs_group,
                warned_secrets_on_disk: &shared.warned_secrets_on_disk,
            };
            for volume in to_mount {
                match volume.mounter.set_up(&args) {
                    Ok(mounted) => {
                        if !volume.requires_remount {
                            volumes.no_remount.insert(volume.name.clone());
                        }
                        volumes.mounted.insert(volume.name, mounted);
                    }
                    Err(reason) => failures.push(VolumeFailure {
                        cause: MountFailure::step_failed("SetUp", &volume.spec_name, reason),
                        volume: volume.name,
                    }),
                }
            }
            failures.sort_by(|one, other| one.volume.cmp(&other.volume));
            if failures.is_empty() {
                Ok(())
            } else {
                Err(VolumeManagerError::SetUp(failures))
            }
        };
        run_blocking(set_up_all).await
    }

    /// The mounts of a container, after [`VolumeManager::mount_pod_volumes`]. Creates sub paths and bind-mounts them.
    ///
    /// An image volume is returned with the image reference of the pod spec; pull the image before creating the container.
    // upstream: pkg/kubelet/kubelet_pods.go makeMounts
    pub async fn make_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        environment: &[(String, String)],
    ) -> Result<Vec<Mount>, VolumeManagerError> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let volumes = self.lock(&uid).await;
        let requests = container_mounts::resolve_mounts(container, environment, &volumes.mounted)?;
        let shared = Arc::clone(&self.shared);
        let name = container.name.clone();
        let make_all = move || {
            // Held until the thread is done: see `mount_pod_volumes`.
            let _volumes = volumes;
            let mounts = requests
                .into_iter()
                .map(|request| container_mounts::make_mount(&shared.directories, &uid, &name, request));
            Ok(mounts.collect::<Result<Vec<_>, _>>()?)
        };
        run_blocking(make_all).await
    }

    /// Unmounts and removes the volumes of a pod whose containers all terminated. Termination messages and `/etc/hosts` stay until
    /// [`VolumeManager::remove_pod_directory`].
    // upstream: pkg/kubelet/volumemanager/volume_manager.go WaitForUnmount
    pub async fn unmount_pod_volumes(&self, pod: &PodIdentity) -> Result<(), VolumeManagerError> {
        self.tear_down_with(pod, tear_down::unmount_pod_volumes).await
    }

    /// Unmounts the volumes of a deleted pod and removes its directory. Idempotent; succeeds for an unknown pod.
    // upstream: pkg/kubelet/kubelet_volumes.go cleanupOrphanedPodDirs
    pub async fn remove_pod_directory(&self, pod: &PodIdentity) -> Result<(), VolumeManagerError> {
        self.tear_down_with(pod, tear_down::remove_pod_directory).await
    }

    /// UIDs of all pods that have a directory, including pods from before a restart of the agent.
    // upstream: pkg/kubelet/kubelet_pods.go listPodsFromDisk
    pub async fn list_pods_from_disk(&self) -> Result<Vec<String>, VolumeManagerError> {
        let shared = Arc::clone(&self.shared);
        run_blocking(move || tear_down::list_pods_from_disk(&shared.directories)).await
    }

    /// Disk usage of a pod's ephemeral volumes, which counts as ephemeral storage of the pod. Omits a volume that is removed concurrently.
    pub async fn volume_usage(&self, pod: &PodIdentity) -> Result<Vec<VolumeUsage>, VolumeManagerError> {
        let volumes = match self.shared.pods().get(&pod.uid) {
            Some(volumes) => Arc::clone(volumes),
            None => return Ok(Vec::new()),
        };
        let mounted = volumes.lock().await.mounted.clone();
        let measure_all = move || {
            let mut usages = Vec::new();
            for (volume, mounted) in mounted {
                let VolumeLocation::Host(path) = &mounted.location else {
                    continue;
                };
                // A host path may be the whole disk: walking it would take too long.
                if !mounted.is_ephemeral {
                    continue;
                }
                match usage::measure(&volume, path) {
                    Ok(usage) => usages.push(usage),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        return Err(VolumeManagerError::io(
                            "failed to measure disk usage of",
                            path,
                            error,
                        ));
                    }
                }
            }
            Ok(usages)
        };
        run_blocking(measure_all).await
    }

    /// Reads a file of a mounted volume; `None` if it does not exist.
    pub(crate) async fn read_file(
        &self,
        pod: &Pod,
        volume: &str,
        path: &str,
    ) -> Result<Option<Vec<u8>>, VolumeManagerError> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let location = self
            .lock(&uid)
            .await
            .mounted
            .get(volume)
            .map(|mounted| mounted.location.clone());
        let Some(VolumeLocation::Host(directory)) = location else {
            return Err(VolumeManagerError::FileKeyVolume(volume.to_owned()));
        };
        let path = path.to_owned();
        let read = move || {
            let content = safe_open::open_file(&directory, Path::new(&path)).and_then(|file| {
                let mut bytes = Vec::new();
                file.take(MAX_ENV_FILE_BYTES).read_to_end(&mut bytes)?;
                Ok(bytes)
            });
            match content {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(VolumeManagerError::io("failed to read", Path::new(&path), error)),
            }
        };
        run_blocking(read).await
    }

    /// The volumes that containers of the pod use and that must be set up, and the volumes that cannot be set up.
    // upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go processPodVolumes
    async fn volumes_to_mount(
        &self,
        pod: &Pod,
        facts: &NodeFacts,
        volumes: &PodVolumes,
    ) -> (Vec<VolumeToMount>, Vec<VolumeFailure>) {
        let context = VolumeContext {
            pod,
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
            directories: &self.shared.directories,
            sources: &*self.shared.sources,
            facts,
        };
        let expected = expected_volumes(pod);
        let spec = pod.spec.as_ref();
        let spec_volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let mut to_mount = Vec::new();
        let mut failures = Vec::new();
        // A loop, not iterator adapters: a closure that lives across the `await` makes this future not `Send`.
        for volume in spec_volumes {
            if !expected.contains(volume.name.as_str()) || volumes.no_remount.contains(&volume.name) {
                continue;
            }
            match self.volume_to_mount(&context, volume).await {
                Ok(ready) => to_mount.push(ready),
                Err(cause) => failures.push(VolumeFailure {
                    volume: volume.name.clone(),
                    cause,
                }),
            }
        }
        (to_mount, failures)
    }

    async fn volume_to_mount(
        &self,
        context: &VolumeContext<'_>,
        volume: &Volume,
    ) -> Result<VolumeToMount, MountFailure> {
        let spec = if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
            persistent_volume_claim::create_volume_spec(context, volume).await?
        } else {
            VolumeSpec::from_volume(volume)
        };
        let plugin = self.shared.plugins.find_plugin_by_spec(&spec)?;
        let mounter = plugin
            .new_mounter(&spec, context)
            .await
            .map_err(|reason| MountFailure::step_failed("SetUp", spec.name(), reason))?;
        if spec.is_read_write_once_pod() {
            self.claim_exclusive_volume(context.uid, spec.name())?;
        }
        Ok(VolumeToMount {
            name: volume.name.clone(),
            spec_name: spec.name().to_owned(),
            requires_remount: plugin.requires_remount(),
            mounter,
        })
    }

    /// Reserves a `ReadWriteOncePod` volume for a pod.
    fn claim_exclusive_volume(&self, uid: &str, spec_name: &str) -> Result<(), MountFailure> {
        let mut exclusive_volumes = self.exclusive_volumes();
        let user = exclusive_volumes
            .entry(spec_name.to_owned())
            .or_insert_with(|| uid.to_owned());
        if user == uid {
            return Ok(());
        }
        let reason = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
        Err(MountFailure::step_failed("SetUp", spec_name, reason))
    }

    fn exclusive_volumes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.shared.exclusive_volumes.lock()
    }

    /// Runs a step of the teardown on a blocking thread, then drops what is known of the pod.
    async fn tear_down_with(
        &self,
        pod: &PodIdentity,
        step: fn(&PodDirectories, &str) -> Result<(), VolumeManagerError>,
    ) -> Result<(), VolumeManagerError> {
        let mut volumes = self.lock(&pod.uid).await;
        let shared = Arc::clone(&self.shared);
        let uid = pod.uid.clone();
        let run_step = move || {
            *volumes = PodVolumes::default();
            step(&shared.directories, &uid)?;
            // Remove the entry before releasing the lock: a waiting task then sees that its entry is stale (see `lock`).
            shared.pods().remove(&uid);
            drop(volumes);
            Ok::<_, VolumeManagerError>(())
        };
        run_blocking(run_step).await?;
        self.shared.sources.unregister_pod(pod);
        self.exclusive_volumes().retain(|_, uid| *uid != pod.uid);
        Ok(())
    }

    /// Locks the volumes of a pod.
    async fn lock(&self, uid: &str) -> OwnedMutexGuard<PodVolumes> {
        loop {
            let volumes = Arc::clone(self.shared.pods().entry(uid.to_owned()).or_default());
            let guard = Arc::clone(&volumes).lock_owned().await;
            // A teardown may have removed the entry while this task waited. Then a new entry exists, or will: retry.
            if self
                .shared
                .pods()
                .get(uid)
                .is_some_and(|current| Arc::ptr_eq(current, &volumes))
            {
                return guard;
            }
        }
    }
}

// --- VolumeManagerState ---

impl VolumeManagerState {
    fn pods(&self) -> MutexGuard<'_, PodVolumesByUid> {
        self.pods.lock()
    }
}

/// Names of the volumes that containers mount, or read environment variables from.
// upstream: pkg/kubelet/volumemanager/volume_manager.go getExpectedVolumes
fn expected_volumes(pod: &Pod) -> BTreeSet<&str> {
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
