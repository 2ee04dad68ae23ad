//! Ensures that the image of a container is present: pull policy, back-off after a failed pull, events.
// upstream: pkg/kubelet/images/image_manager.go imageManager

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use kubecontroller::{
    Backoff, Clock, KeyedBackoff,
    events::{EventRecorder, EventType},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    PulledImages,
    keyring::DockerKeyring,
    reference::{ImageReference, apply_default_image_tag},
};
use crate::runtime::{Image, Runtime, RuntimeError};

/// Back-off between pulls of an image for a pod.
const PULL_BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(5));

/// Limits of image pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePullLimits {
    /// Maximum number of parallel pulls (`maxParallelImagePulls`). Default: 5; upstream has no limit by default.
    pub parallel: usize,
    /// Timeout of a pull, including all attempts with different credentials. Default: 2 minutes. Runtimes keep the layers that were
    /// pulled by then, so that a retry continues.
    pub pull: Duration,
    /// Timeout of a lookup of a present image. Default: 2 minutes.
    pub inspect: Duration,
}

/// Ensures that images are present. Clones share state.
#[derive(Clone)]
pub struct ImageManager {
    limits: ImagePullLimits,
    pull_permits: Arc<Semaphore>,
    pulled: PulledImages,
    recorder: EventRecorder,
    clock: Clock,
    failures: Arc<Mutex<PullFailures>>,
}

/// Failed pulls by pod UID and image. Per pod, because pods may have different credentials.
struct PullFailures {
    backoff: KeyedBackoff<(String, String)>,
    /// Reason and message of the last failure.
    last_error: HashMap<(String, String), String>,
}

/// The image of a container, and its pull policy and credentials.
#[derive(Clone, Copy, Debug)]
pub struct EnsureImageRequest<'a> {
    /// UID of the pod.
    pub uid: &'a str,
    /// Involved object of the events.
    pub regarding: &'a ObjectReference,
    /// Image name of the pod spec.
    pub image: &'a str,
    /// Image pull policy: `Always`, `IfNotPresent` or `Never`.
    pub policy: &'a str,
    /// Credentials from the image pull secrets of the pod.
    pub keyring: &'a DockerKeyring,
}

/// An image is not present: the waiting state of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsureImageError {
    /// `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`, `ImageInspectError`, `RegistryUnavailable`.
    pub reason: &'static str,
    /// Message of the waiting state.
    pub message: String,
    /// When the pull may be retried, if known.
    pub retry_at: Option<Timestamp>,
}

// --- ImagePullLimits ---

impl Default for ImagePullLimits {
    fn default() -> Self {
        ImagePullLimits {
            parallel: 5,
            pull: Duration::from_mins(2),
            inspect: Duration::from_mins(2),
        }
    }
}

// --- ImageManager ---

impl ImageManager {
    /// Without images; events are recorded with `recorder`.
    pub fn new(limits: ImagePullLimits, pulled: PulledImages, recorder: EventRecorder, clock: Clock) -> Self {
        let failures = PullFailures {
            backoff: KeyedBackoff::new(PULL_BACKOFF),
            last_error: HashMap::new(),
        };
        ImageManager {
            limits,
            pull_permits: Arc::new(Semaphore::new(limits.parallel.max(1))),
            pulled,
            recorder,
            clock,
            failures: Arc::new(Mutex::new(failures)),
        }
    }

    /// Pulls an image if its policy requires that; returns the present image.
    // upstream: pkg/kubelet/images/image_manager.go EnsureImageExists
    pub async fn ensure_image_exists(
        &self,
        runtime: &dyn Runtime,
        request: &EnsureImageRequest<'_>,
    ) -> Result<Image, EnsureImageError> {
        let image = apply_default_image_tag(request.image).map_err(|error| {
            let message = format!("Failed to apply default image tag \"{}\": {error}", request.image);
            self.record_event(request, EventType::Warning, "InspectFailed", &message);
            EnsureImageError::new("InvalidImageName", message)
        })?;
        if request.policy != "Always" {
            if let Some(present) = self.find(runtime, request, &image).await? {
                let message = format!(
                    "Container image \"{}\" already present on machine and can be accessed by the pod",
                    request.image
                );
                self.record_event(request, EventType::Normal, "Pulled", &message);
                return Ok(present);
            }
            if request.policy == "Never" {
                let message = format!(
                    "Container image \"{}\" is not present with pull policy of Never",
                    request.image
                );
                self.record_event(request, EventType::Warning, "ErrImageNeverPull", &message);
                return Err(EnsureImageError::new("ErrImageNeverPull", message));
            }
        }
        self.pull(runtime, request, &image).await
    }

    /// Drops the back-off of a removed pod.
    pub fn remove_pod(&self, uid: &str) {
        let mut failures = self.failures();
        failures.backoff.remove(|(pod, _)| pod == uid);
        failures.last_error.retain(|(pod, _), _| pod != uid);
    }

    async fn find(
        &self,
        runtime: &dyn Runtime,
        request: &EnsureImageRequest<'_>,
        image: &str,
    ) -> Result<Option<Image>, EnsureImageError> {
        let found = with_timeout(self.limits.inspect, "ImageStatus", runtime.image_status(image)).await;
        found.map_err(|error| {
            // Upstream formats an image reference that is always empty here.
            let message = format!("Failed to inspect image \"\": {error}");
            self.record_event(request, EventType::Warning, "InspectFailed", &message);
            EnsureImageError::new("ImageInspectError", message)
        })
    }

    async fn pull(
        &self,
        runtime: &dyn Runtime,
        request: &EnsureImageRequest<'_>,
        image: &str,
    ) -> Result<Image, EnsureImageError> {
        let key = (request.uid.to_owned(), request.image.to_owned());
        self.check_backoff(request, &key)?;
        let message = format!("Pulling image \"{}\"", request.image);
        self.record_event(request, EventType::Normal, "Pulling", &message);
        let requested_at = Instant::now();
        let pulled = async {
            let _permit = self.pull_permits.acquire().await;
            let started_at = Instant::now();
            let pull = self.pull_with_credentials(runtime, request, image);
            let name = with_timeout(self.limits.pull, "PullImage", pull).await?;
            let took = started_at.elapsed();
            // Some runtimes return an ID that a lookup does not find; the name of the request then does.
            let found = with_timeout(self.limits.inspect, "ImageStatus", runtime.image_status(&name)).await?;
            let found = match found {
                Some(found) => Some(found),
                None => with_timeout(self.limits.inspect, "ImageStatus", runtime.image_status(image)).await?,
            };
            let missing =
                || RuntimeError::NotFound(format!("image {image} is not present after it was pulled"));
            Ok((found.ok_or_else(missing)?, took))
        };
        match pulled.await {
            Ok((found, took)) => {
                self.pulled.add(&found).await;
                let message = format!(
                    "Successfully pulled image \"{}\" in {} ({} including waiting). Image size: {} bytes.",
                    request.image,
                    format_duration(took),
                    format_duration(requested_at.elapsed()),
                    found.size
                );
                self.record_event(request, EventType::Normal, "Pulled", &message);
                self.failures().last_error.remove(&key);
                Ok(found)
            }
            Err(error) => Err(self.handle_pull_error(request, key, &error)),
        }
    }

    /// Returns `ImagePullBackOff` during the back-off after a failed pull.
    fn check_backoff(
        &self,
        request: &EnsureImageRequest<'_>,
        key: &(String, String),
    ) -> Result<(), EnsureImageError> {
        let now = self.clock.now();
        let (until, last_error) = {
            let mut failures = self.failures();
            let Some(until) = failures.backoff.until_since_update(key, now) else {
                failures.last_error.remove(key);
                return Ok(());
            };
            (until, failures.last_error.get(key).cloned())
        };
        let message = format!("Back-off pulling image \"{}\"", request.image);
        self.record_event(request, EventType::Normal, "BackOff", &message);
        let message = match last_error {
            Some(last_error) => format!("{message}: {last_error}"),
            None => message,
        };
        Err(EnsureImageError {
            reason: "ImagePullBackOff",
            message,
            retry_at: Some(until),
        })
    }

    /// Pulls with each matching credential until one succeeds; anonymously if there is none.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_image.go PullImage
    async fn pull_with_credentials(
        &self,
        runtime: &dyn Runtime,
        request: &EnsureImageRequest<'_>,
        image: &str,
    ) -> Result<String, RuntimeError> {
        let repository = ImageReference::parse(image).map(|reference| reference.repository);
        let credentials = request.keyring.lookup(repository.as_deref().unwrap_or_default());
        let mut attempts: Vec<_> = credentials.into_iter().map(Some).collect();
        // The error of the last attempt is the one that is reported.
        let last_attempt = attempts.pop().unwrap_or(None);
        for credential in attempts {
            if let Ok(pulled) = runtime.pull_image(image, credential).await {
                return Ok(pulled);
            }
        }
        runtime.pull_image(image, last_attempt).await
    }

    /// Records a failed pull and starts its back-off.
    // upstream: pkg/kubelet/images/image_manager.go evalCRIPullErr
    fn handle_pull_error(
        &self,
        request: &EnsureImageRequest<'_>,
        key: (String, String),
        error: &RuntimeError,
    ) -> EnsureImageError {
        let message = format!("Failed to pull image \"{}\": {error}", request.image);
        self.record_event(request, EventType::Warning, "Failed", &message);
        let (reason, message) = match error {
            RuntimeError::RegistryUnavailable(why) => {
                let why = why
                    .strip_prefix("RegistryUnavailable")
                    .unwrap_or(why)
                    .trim_start_matches(": ");
                let image = request.image;
                let message =
                    format!("image pull failed for {image} because the registry is unavailable: {why}");
                ("RegistryUnavailable", message)
            }
            RuntimeError::InvalidImageName(why) => ("InvalidImageName", why.clone()),
            error => ("ErrImagePull", error.to_string()),
        };
        let now = self.clock.now();
        let mut failures = self.failures();
        failures.backoff.increase(key.clone(), now, now);
        let retry_at = failures.backoff.until_since_update(&key, now);
        failures.last_error.insert(key, format!("{reason}: {message}"));
        EnsureImageError {
            reason,
            message,
            retry_at,
        }
    }

    fn record_event(&self, request: &EnsureImageRequest<'_>, kind: EventType, reason: &str, message: &str) {
        self.recorder
            .event(request.regarding, kind, reason, "Pulling", message);
    }

    fn failures(&self) -> MutexGuard<'_, PullFailures> {
        self.failures.lock()
    }
}

// --- EnsureImageError ---

impl EnsureImageError {
    fn new(reason: &'static str, message: String) -> Self {
        EnsureImageError {
            reason,
            message,
            retry_at: None,
        }
    }
}

/// Limits the duration of a runtime call.
pub(crate) async fn with_timeout<T>(
    after: Duration,
    what: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    match tokio::time::timeout(after, call).await {
        Ok(result) => result,
        Err(_) => Err(RuntimeError::Timeout {
            what: what.to_owned(),
            after,
        }),
    }
}

/// Formats a duration like Go, rounded down to milliseconds: `12ms`, `1.5s`, `1m2.5s`.
fn format_duration(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    k3_duration::format(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{
        ByteString,
        api::core::v1::{Event, Secret},
    };
    use kubecontroller::{
        events::{EventApi, EventBroadcaster},
        manager::{Runnable, Stop},
        testing::{FakeApi, eventually},
    };

    use super::*;
    use crate::runtime::fake::{self, FakeRuntime};

    /// An image manager with a fake runtime.
    struct TestImages {
        api: FakeApi,
        pulled: PulledImages,
        _directory: tempfile::TempDir,
        images: ImageManager,
        runtime: FakeRuntime,
        events: Arc<EventBroadcaster>,
        regarding: ObjectReference,
    }

    fn test_images() -> TestImages {
        let clock = fake::clock();
        let api = FakeApi::with_clock(clock.clone());
        let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock.clone()));
        let recorder = events.recorder("kubelet").style(EventApi::Core);
        let directory = tempfile::tempdir().unwrap();
        let pulled = PulledImages::open(directory.path());
        TestImages {
            images: ImageManager::new(
                ImagePullLimits::default(),
                pulled.clone(),
                recorder,
                clock.clone(),
            ),
            pulled,
            _directory: directory,
            runtime: FakeRuntime::new(clock),
            api,
            events,
            regarding: ObjectReference {
                namespace: Some("default".to_owned()),
                name: Some("web".to_owned()),
                ..ObjectReference::default()
            },
        }
    }

    impl TestImages {
        async fn ensure_image_exists(
            &self,
            image: &str,
            policy: &str,
            keyring: &DockerKeyring,
        ) -> Result<Image, EnsureImageError> {
            let request = EnsureImageRequest {
                uid: "u1",
                regarding: &self.regarding,
                image,
                policy,
                keyring,
            };
            self.images.ensure_image_exists(&self.runtime, &request).await
        }

        /// Waits until `count` events were written, and returns their reasons and messages.
        async fn events(&self, count: usize) -> Vec<String> {
            let stop = Stop::new();
            let written = eventually(|| async {
                let events: Vec<Event> = self.api.list();
                (events.len() >= count).then_some(events)
            });
            let events = tokio::select! {
                _ = self.events.run(stop.clone()) => panic!("events run until they are stopped"),
                events = written => events,
            };
            let text = |event: &Event| {
                let value = |field: &Option<String>| field.clone().unwrap_or_default();
                format!("{}: {}", value(&event.reason), value(&event.message))
            };
            events.iter().map(text).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pulls_present_image_only_with_policy_always() {
        let images = test_images();
        let runtime = images.runtime.clone().with_image("busybox:latest");
        let none = DockerKeyring::default();
        assert!(
            images
                .ensure_image_exists("busybox", "IfNotPresent", &none)
                .await
                .is_ok()
        );
        assert!(
            images
                .ensure_image_exists("busybox", "Never", &none)
                .await
                .is_ok()
        );
        assert_eq!(runtime.count("pull_image"), 0);
        let image = runtime.image_status("busybox:latest").await.unwrap().unwrap();
        assert!(!images.pulled.contains(&image.id), "this node did not pull it");
        let _in_registry = runtime.clone().with_registry_image("busybox:latest");
        assert!(
            images
                .ensure_image_exists("busybox", "Always", &none)
                .await
                .is_ok()
        );
        assert_eq!(runtime.count("pull_image busybox:latest"), 1);
        let image = runtime.image_status("busybox:latest").await.unwrap().unwrap();
        assert!(images.pulled.contains(&image.id));
        let never = images
            .ensure_image_exists("other", "Never", &none)
            .await
            .unwrap_err();
        assert_eq!(never.reason, "ErrImageNeverPull");
        assert_eq!(
            never.message,
            "Container image \"other\" is not present with pull policy of Never"
        );
        let bad = images
            .ensure_image_exists("Bad", "Always", &none)
            .await
            .unwrap_err();
        assert_eq!(bad.reason, "InvalidImageName");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_pull_backs_off_and_reports_last_error() {
        let images = test_images();
        let none = DockerKeyring::default();
        let first = images
            .ensure_image_exists("missing:1", "IfNotPresent", &none)
            .await
            .unwrap_err();
        assert_eq!(
            (first.reason, first.message.as_str()),
            ("ErrImagePull", "missing:1: not found")
        );
        let second = images
            .ensure_image_exists("missing:1", "IfNotPresent", &none)
            .await
            .unwrap_err();
        assert_eq!(second.reason, "ImagePullBackOff");
        assert_eq!(
            second.message,
            "Back-off pulling image \"missing:1\": ErrImagePull: missing:1: not found"
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        let _in_registry = images.runtime.clone().with_registry_image("missing:1");
        assert!(
            images
                .ensure_image_exists("missing:1", "IfNotPresent", &none)
                .await
                .is_ok()
        );
        let mut events = images.events(4).await;
        events.sort();
        assert_eq!(
            events,
            [
                "BackOff: Back-off pulling image \"missing:1\"",
                "Failed: Failed to pull image \"missing:1\": missing:1: not found",
                "Pulled: Successfully pulled image \"missing:1\" in 0s (0s including waiting). Image size: 4096 bytes.",
                "Pulling: Pulling image \"missing:1\"",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_pull_times_out() {
        let images = test_images();
        images
            .runtime
            .delay_calls("pull_image", 1, Duration::from_hours(1));
        let error = images
            .ensure_image_exists("slow", "Always", &DockerKeyring::default())
            .await
            .unwrap_err();
        assert_eq!(error.message, "PullImage: context deadline exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn tries_each_matching_credential() {
        let images = test_images();
        let _in_registry = images.runtime.clone().with_registry_image("example.com/a:1");
        let config = r#"{"auths":{"example.com/a":{"username":"first","password":"x"},"example.com":{"username":"second","password":"y"}}}"#;
        let secret = Secret {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some(BTreeMap::from([(
                ".dockerconfigjson".to_owned(),
                ByteString(config.into()),
            )])),
            ..Secret::default()
        };
        images
            .runtime
            .fail_calls("pull_image example.com/a:1 as first", 1, "unauthorized");
        let keyring = DockerKeyring::from_secrets([&secret]);
        assert!(
            images
                .ensure_image_exists("example.com/a:1", "Always", &keyring)
                .await
                .is_ok()
        );
        assert_eq!(images.runtime.count("pull_image example.com/a:1 as second"), 1);
    }

    #[test]
    fn formats_durations_like_upstream() {
        let formatted = [12, 1500, 2000, 62_250].map(|time| format_duration(Duration::from_millis(time)));
        assert_eq!(formatted, ["12ms", "1.5s", "2s", "1m2.25s"]);
    }
}
