//! Policies, waits after failures, what users are told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use kubecontroller::{
    Clock,
    events::{EventRecorder, EventType},
};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    PulledImages,
    keyring::Keyring,
    reference::{Reference, with_tag},
};
use crate::{
    pod::backoff::KeyedBackoff,
    runtime::{Image, Runtime, RuntimeError},
};

/// How images are pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many at a time. Default: 5. More of them share one line.
    pub parallel: usize,
    /// How long one may take, whichever secrets are tried. Default: 2 minutes. What was pulled of it by then, runtimes keep.
    pub pull: Duration,
    /// How long one may be looked for on this machine. Default: 2 minutes.
    pub look: Duration,
}

/// Brings images. Clones are the same.
#[derive(Clone)]
pub struct Images {
    limits: Limits,
    slots: Arc<Semaphore>,
    pulled: PulledImages,
    recorder: EventRecorder,
    clock: Clock,
    failures: Arc<Mutex<Failures>>,
}

struct Failures {
    /// By the uid of the pod and the image.
    waits: KeyedBackoff<(String, String)>,
    /// What went wrong last.
    last: HashMap<(String, String), String>,
}

/// What image is wanted, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The uid of the pod.
    pub uid: &'a str,
    /// What events are about.
    pub regarding: &'a ObjectReference,
    /// The image as the pod names it.
    pub image: &'a str,
    /// `Always`, `IfNotPresent` or `Never`.
    pub policy: &'a str,
    /// The secrets that the pod brings.
    pub keyring: &'a Keyring,
}

/// Why there is no image: what the container waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`, `ImageInspectError`, `RegistryUnavailable`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// When it makes sense to try again, if that is known.
    pub again: Option<Timestamp>,
}

// --- Limits ---

impl Default for Limits {
    fn default() -> Self {
        Limits {
            parallel: 5,
            pull: Duration::from_mins(2),
            look: Duration::from_mins(2),
        }
    }
}

// --- Images ---

impl Images {
    /// Tells what happens through the recorder.
    pub fn new(limits: Limits, pulled: PulledImages, recorder: EventRecorder, clock: Clock) -> Self {
        let waits = KeyedBackoff::new(Duration::from_secs(10), Duration::from_mins(5));
        let last = HashMap::new();
        Images {
            limits,
            slots: Arc::new(Semaphore::new(limits.parallel.max(1))),
            pulled,
            recorder,
            clock,
            failures: Arc::new(Mutex::new(Failures { waits, last })),
        }
    }

    /// An image that is on this machine when this returns.
    pub async fn ensure(&self, runtime: &dyn Runtime, request: &Request<'_>) -> Result<Image, Trouble> {
        let image = with_tag(request.image).map_err(|error| {
            let message = format!("Failed to apply default image tag \"{}\": {error}", request.image);
            self.tell(request, EventType::Warning, "InspectFailed", &message);
            Trouble::new("InvalidImageName", message)
        })?;
        if request.policy != "Always" {
            if let Some(there) = self.find(runtime, request, &image).await? {
                let message = format!(
                    "Container image \"{}\" already present on machine and can be accessed by the pod",
                    request.image
                );
                self.tell(request, EventType::Normal, "Pulled", &message);
                return Ok(there);
            }
            if request.policy == "Never" {
                let message = format!(
                    "Container image \"{}\" is not present with pull policy of Never",
                    request.image
                );
                self.tell(request, EventType::Warning, "ErrImageNeverPull", &message);
                return Err(Trouble::new("ErrImageNeverPull", message));
            }
        }
        self.pull(runtime, request, &image).await
    }

    /// Forgets what failed for a pod that is gone.
    pub fn forget(&self, uid: &str) {
        let mut failures = self.failures();
        failures.waits.remove(|(pod, _)| pod == uid);
        failures.last.retain(|(pod, _), _| pod != uid);
    }

    async fn find(
        &self,
        runtime: &dyn Runtime,
        request: &Request<'_>,
        image: &str,
    ) -> Result<Option<Image>, Trouble> {
        let found = limited(self.limits.look, "ImageStatus", runtime.image(image)).await;
        found.map_err(|error| {
            let message = format!("Failed to inspect image \"\": {error}");
            self.tell(request, EventType::Warning, "InspectFailed", &message);
            Trouble::new("ImageInspectError", message)
        })
    }

    async fn pull(
        &self,
        runtime: &dyn Runtime,
        request: &Request<'_>,
        image: &str,
    ) -> Result<Image, Trouble> {
        let key = (request.uid.to_owned(), request.image.to_owned());
        self.check_wait(request, &key)?;
        let message = format!("Pulling image \"{}\"", request.image);
        self.tell(request, EventType::Normal, "Pulling", &message);
        let begun = Instant::now();
        let pulled = async {
            let _slot = self.slots.acquire().await;
            let begun = Instant::now();
            let fetch = self.fetch(runtime, request, image);
            let name = limited(self.limits.pull, "PullImage", fetch).await?;
            let took = begun.elapsed();
            let found = limited(self.limits.look, "ImageStatus", runtime.image(&name)).await?;
            let found = match found {
                Some(found) => Some(found),
                None => limited(self.limits.look, "ImageStatus", runtime.image(image)).await?,
            };
            let gone = || RuntimeError::NotFound(format!("image {image} is gone after it was pulled"));
            Ok((found.ok_or_else(gone)?, took))
        };
        match pulled.await {
            Ok((found, took)) => {
                self.pulled.add(&found);
                let message = format!(
                    "Successfully pulled image \"{}\" in {} ({} including waiting). Image size: {} bytes.",
                    request.image,
                    milliseconds(took),
                    milliseconds(begun.elapsed()),
                    found.size
                );
                self.tell(request, EventType::Normal, "Pulled", &message);
                self.failures().last.remove(&key);
                Ok(found)
            }
            Err(error) => Err(self.failed(request, key, &error)),
        }
    }

    /// Waits after a failure, and says so.
    fn check_wait(&self, request: &Request<'_>, key: &(String, String)) -> Result<(), Trouble> {
        let now = self.clock.now();
        let (until, last) = {
            let mut failures = self.failures();
            let Some(until) = failures.waits.until_since_update(key, now) else {
                failures.last.remove(key);
                return Ok(());
            };
            (until, failures.last.get(key).cloned())
        };
        let message = format!("Back-off pulling image \"{}\"", request.image);
        self.tell(request, EventType::Normal, "BackOff", &message);
        let message = match last {
            Some(last) => format!("{message}: {last}"),
            None => message,
        };
        Err(Trouble {
            reason: "ImagePullBackOff",
            message,
            again: Some(until),
        })
    }

    /// Tries the secrets that fit, one after the other; without any, nobody in particular.
    async fn fetch(
        &self,
        runtime: &dyn Runtime,
        request: &Request<'_>,
        image: &str,
    ) -> Result<String, RuntimeError> {
        let repository = Reference::parse(image).map(|reference| reference.repository);
        let secrets = request
            .keyring
            .for_repository(repository.as_deref().unwrap_or_default());
        let mut in_turn: Vec<_> = secrets.into_iter().map(Some).collect();
        let last = in_turn.pop().unwrap_or(None);
        for secret in in_turn {
            if let Ok(pulled) = runtime.pull_image(image, secret).await {
                return Ok(pulled);
            }
        }
        runtime.pull_image(image, last).await
    }

    fn failed(&self, request: &Request<'_>, key: (String, String), error: &RuntimeError) -> Trouble {
        let message = format!("Failed to pull image \"{}\": {error}", request.image);
        self.tell(request, EventType::Warning, "Failed", &message);
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
        failures.waits.increase(&key, now, now);
        let again = failures.waits.until_since_update(&key, now);
        failures.last.insert(key, format!("{reason}: {message}"));
        Trouble {
            reason,
            message,
            again,
        }
    }

    fn tell(&self, request: &Request<'_>, kind: EventType, reason: &str, message: &str) {
        self.recorder
            .event(request.regarding, kind, reason, "Pulling", message);
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Trouble ---

impl Trouble {
    fn new(reason: &'static str, message: String) -> Self {
        Trouble {
            reason,
            message,
            again: None,
        }
    }
}

/// A call of the runtime that is given up after a while.
pub(crate) async fn limited<T>(
    after: Duration,
    what: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    match tokio::time::timeout(after, call).await {
        Ok(answer) => answer,
        Err(_) => Err(RuntimeError::Timeout {
            what: what.to_owned(),
            after,
        }),
    }
}

/// As upstream writes short durations: `12ms`, `1.5s`, `1m2.5s`.
fn milliseconds(time: Duration) -> String {
    let total = time.as_millis();
    if total < 1000 {
        return format!("{total}ms");
    }
    let minutes = total / 60_000;
    let rest = total % 60_000;
    let mut seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    seconds.truncate(seconds.trim_end_matches('0').trim_end_matches('.').len());
    match minutes {
        0 => format!("{seconds}s"),
        _ => format!("{minutes}m{seconds}s"),
    }
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

    struct Stage {
        api: FakeApi,
        pulled: PulledImages,
        _folder: tempfile::TempDir,
        images: Images,
        runtime: FakeRuntime,
        events: Arc<EventBroadcaster>,
        regarding: ObjectReference,
    }

    fn stage() -> Stage {
        let clock = fake::clock();
        let api = FakeApi::with_clock(clock.clone());
        let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock.clone()));
        let recorder = events.recorder("kubelet").style(EventApi::Core);
        let folder = tempfile::tempdir().unwrap();
        let pulled = PulledImages::open(folder.path());
        Stage {
            images: Images::new(Limits::default(), pulled.clone(), recorder, clock.clone()),
            pulled,
            _folder: folder,
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

    impl Stage {
        async fn ensure(&self, image: &str, policy: &str, keyring: &Keyring) -> Result<Image, Trouble> {
            let request = Request {
                uid: "u1",
                regarding: &self.regarding,
                image,
                policy,
                keyring,
            };
            self.images.ensure(&self.runtime, &request).await
        }

        /// Waits until so many events were written, and tells them.
        async fn told(&self, count: usize) -> Vec<String> {
            let stop = Stop::new();
            let look = eventually(|| async {
                let events: Vec<Event> = self.api.list();
                (events.len() >= count).then_some(events)
            });
            let events = tokio::select! {
                _ = self.events.run(stop.clone()) => panic!("events run until they are stopped"),
                events = look => events,
            };
            let text = |event: &Event| {
                let of = |field: &Option<String>| field.clone().unwrap_or_default();
                format!("{}: {}", of(&event.reason), of(&event.message))
            };
            events.iter().map(text).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_that_is_there_is_pulled_only_if_it_always_is() {
        let stage = stage();
        let runtime = stage.runtime.clone().with_image("busybox:latest");
        let none = Keyring::default();
        assert!(stage.ensure("busybox", "IfNotPresent", &none).await.is_ok());
        assert!(stage.ensure("busybox", "Never", &none).await.is_ok());
        assert_eq!(runtime.count("pull_image"), 0);
        let image = runtime.image("busybox:latest").await.unwrap().unwrap();
        assert!(!stage.pulled.contains(&image.id), "somebody else brought it");
        let _in_registry = runtime.clone().in_registry("busybox:latest");
        assert!(stage.ensure("busybox", "Always", &none).await.is_ok());
        assert_eq!(runtime.count("pull_image busybox:latest"), 1);
        let image = runtime.image("busybox:latest").await.unwrap().unwrap();
        assert!(stage.pulled.contains(&image.id));
        let never = stage.ensure("other", "Never", &none).await.unwrap_err();
        assert_eq!(never.reason, "ErrImageNeverPull");
        assert_eq!(
            never.message,
            "Container image \"other\" is not present with pull policy of Never"
        );
        let bad = stage.ensure("Bad", "Always", &none).await.unwrap_err();
        assert_eq!(bad.reason, "InvalidImageName");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_pull_waits_and_says_what_failed() {
        let stage = stage();
        let none = Keyring::default();
        let first = stage.ensure("gone:1", "IfNotPresent", &none).await.unwrap_err();
        assert_eq!(
            (first.reason, first.message.as_str()),
            ("ErrImagePull", "gone:1: not found")
        );
        let second = stage.ensure("gone:1", "IfNotPresent", &none).await.unwrap_err();
        assert_eq!(second.reason, "ImagePullBackOff");
        assert_eq!(
            second.message,
            "Back-off pulling image \"gone:1\": ErrImagePull: gone:1: not found"
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        let _in_registry = stage.runtime.clone().in_registry("gone:1");
        assert!(stage.ensure("gone:1", "IfNotPresent", &none).await.is_ok());
        let mut told = stage.told(4).await;
        told.sort();
        assert_eq!(
            told,
            [
                "BackOff: Back-off pulling image \"gone:1\"",
                "Failed: Failed to pull image \"gone:1\": gone:1: not found",
                "Pulled: Successfully pulled image \"gone:1\" in 0ms (0ms including waiting). Image size: 4096 bytes.",
                "Pulling: Pulling image \"gone:1\"",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pull_that_hangs_is_given_up() {
        let stage = stage();
        stage.runtime.slow("pull_image", 1, Duration::from_hours(1));
        let trouble = stage
            .ensure("slow", "Always", &Keyring::default())
            .await
            .unwrap_err();
        assert_eq!(trouble.message, "PullImage: context deadline exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn secrets_of_the_registry_are_tried_in_turn() {
        let stage = stage();
        let _in_registry = stage.runtime.clone().in_registry("example.com/a:1");
        let config = r#"{"auths":{"example.com/a":{"username":"first","password":"x"},"example.com":{"username":"second","password":"y"}}}"#;
        let secret = Secret {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some(BTreeMap::from([(
                ".dockerconfigjson".to_owned(),
                ByteString(config.into()),
            )])),
            ..Secret::default()
        };
        stage
            .runtime
            .refuse("pull_image example.com/a:1 as first", 1, "unauthorized");
        let keyring = Keyring::of([&secret]);
        assert!(stage.ensure("example.com/a:1", "Always", &keyring).await.is_ok());
        assert_eq!(stage.runtime.count("pull_image example.com/a:1 as second"), 1);
    }

    #[test]
    fn durations_are_written_as_upstream_does() {
        let written = [12, 1500, 2000, 62_250].map(|time| milliseconds(Duration::from_millis(time)));
        assert_eq!(written, ["12ms", "1.5s", "2s", "1m2.25s"]);
    }
}
