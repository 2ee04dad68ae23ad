//! Making, finding and ending containers, sandboxes among them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{
    Engine,
    answer::{Inspected, Listed, Made, Progress},
    client::{CallError, QUICK, START, query},
    names::{self, Kind, Marks},
    pause,
    plan::Flavor,
    seen::full_id,
    wire::{Limits, NewContainer},
};
use crate::runtime::{ContainerId, RuntimeError, labels};

/// How many containers are looked at, ended or removed at once.
const AT_ONCE: usize = 8;
/// How often a name is tried to be had: each time somebody who held it made room.
const ATTEMPTS: usize = 4;
/// What ending a container may take beyond its grace time.
pub(super) const STOP: Duration = Duration::from_secs(30);

/// What became of a name that was taken.
enum Room {
    /// Whoever had it has made room.
    Made,
    /// The node of another cluster has it, which is left alone: the error, where no other name is left.
    OtherCluster(RuntimeError),
}

// --- Making ---

impl Engine {
    /// Makes a container with its live name. Whoever of ours had it before makes room.
    pub(super) async fn make(&self, marks: &Marks, body: &NewContainer) -> Result<String, RuntimeError> {
        let mut name = marks.live_name();
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let path = format!("/containers/create{}", query([("name", name.as_str())]));
            let error = match self.client.post::<Made>(&path, body, START).await {
                Ok(made) => {
                    self.cache.made(&made.id);
                    return Ok(made.id);
                }
                Err(error) => error,
            };
            if is_name_taken(&error, &name) {
                if let Room::OtherCluster(taken) = self.make_room(&name, marks).await? {
                    let own = marks.name_of_cluster(&self.planner.owner);
                    if name == own {
                        return Err(taken);
                    }
                    name = own;
                }
            } else if body.image == pause::IMAGE && is_image_missing(&error) {
                self.load_pause().await?;
            } else {
                return Err(self.failed(error, "create container"));
            }
            last = Some(error);
        }
        let error = last.unwrap_or(CallError::Timeout(START));
        Err(self.failed(error, "create container"))
    }

    /// Starts what was made.
    pub(super) async fn start(&self, id: &str) -> Result<(), RuntimeError> {
        let started = self.client.order(&format!("/containers/{id}/start"), START).await;
        let Err(error) = started else {
            return Ok(());
        };
        let error = self.failed(error, "start container");
        // A Podman that looks after a process that has ended already tells that as a failure to start it.
        if self.planner.flavor == Flavor::Podman && matches!(error, RuntimeError::Refused(_)) {
            let seen = self.inspect(id).await?;
            if seen.state.running || matches!(seen.state.status.as_str(), "exited" | "stopped" | "stopping") {
                return Ok(());
            }
        }
        Err(error)
    }

    /// Lets the live name go to another: what was never begun of the same attempt is removed, what lived gets a longer name.
    async fn make_room(&self, name: &str, wanted: &Marks) -> Result<Room, RuntimeError> {
        let holder = match self.inspect(name).await {
            Ok(holder) => holder,
            // It went away meanwhile.
            Err(RuntimeError::NotFound(_)) => return Ok(Room::Made),
            Err(error) => return Err(error),
        };
        let marks = Marks::read(&holder.config.labels);
        let is_of_a_node = marks.is_some();
        let Some(marks) = marks.filter(|_| self.owns(&holder)) else {
            let taken = RuntimeError::NameTaken {
                name: name.to_owned(),
                holder: holder.id.clone(),
            };
            return if is_of_a_node {
                Ok(Room::OtherCluster(taken))
            } else {
                Err(taken)
            };
        };
        let is_unused = matches!(
            holder.state.status.as_str(),
            "created" | "configured" | "initialized"
        );
        if is_unused && marks.pod.uid == wanted.pod.uid && marks.attempt == wanted.attempt {
            return self.remove(&holder.id).await.map(|()| Room::Made);
        }
        let short = holder.id.get(..12).unwrap_or(&holder.id);
        let names = [marks.former_name(), format!("{}_{short}", marks.former_name())];
        let mut outcome = Ok(());
        for former in names {
            let path = format!(
                "/containers/{}/rename{}",
                holder.id,
                query([("name", former.as_str())])
            );
            outcome = self.client.order(&path, QUICK).await;
            match &outcome {
                Err(error) if is_name_taken(error, &former) => {}
                _ => break,
            }
        }
        match outcome {
            Err(error) if !error.is_not_found() => Err(self.failed(error, "rename container")),
            _ => Ok(Room::Made),
        }
    }

    /// Brings our own image of the pause container.
    async fn load_pause(&self) -> Result<(), RuntimeError> {
        let archive = pause::archive().ok_or_else(|| {
            RuntimeError::Unsupported(format!(
                "no pause image for processors of type {}",
                std::env::consts::ARCH
            ))
        })?;
        let answer = self
            .client
            .upload("/images/load?quiet=1", Bytes::from(archive), START)
            .await
            .map_err(|error| self.failed(error, "load the pause image"))?;
        let failed = answer
            .split(|byte| *byte == b'\n')
            .filter_map(|line| kubecontroller::decode::from_slice::<Progress>(line).ok())
            .find_map(|progress| progress.error);
        failed.map_or(Ok(()), |error| {
            Err(RuntimeError::Refused(format!("load the pause image: {error}")))
        })
    }
}

// --- Finding ---

impl Engine {
    /// All of ours of a kind, as they are now.
    pub(super) async fn look(&self, kind: Kind) -> Result<Vec<Arc<Inspected>>, RuntimeError> {
        let listed = self.list(Some(kind), None).await?;
        // Collected first: a closure that is kept while we wait would have to work for all lifetimes.
        let looks: Vec<_> = listed.iter().map(|entry| self.look_at(entry)).collect();
        let seen: Vec<_> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        self.cache.keep_only(|seen| {
            let is_of_kind = Marks::read(&seen.config.labels).is_some_and(|marks| marks.kind == kind);
            !is_of_kind || listed.iter().any(|entry| entry.id == seen.id)
        });
        Ok(seen
            .into_iter()
            .flatten()
            .filter(|seen| self.owns(seen))
            .collect())
    }

    /// An entry of the list; `None` if it went away after that.
    async fn look_at(&self, entry: &Listed) -> Result<Option<Arc<Inspected>>, RuntimeError> {
        if let Some(seen) = self.cache.with_state(&entry.id, &entry.state) {
            return Ok(Some(seen));
        }
        match self.inspect(&entry.id).await {
            Ok(seen) => Ok(Some(seen)),
            Err(RuntimeError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A container as it is now.
    pub(super) async fn inspect(&self, id: &str) -> Result<Arc<Inspected>, RuntimeError> {
        let seen = self
            .client
            .get::<Inspected>(&format!("/containers/{id}/json"), QUICK)
            .await
            .map_err(|error| self.failed(error, "inspect container"))?;
        let seen = Arc::new(seen);
        if self.owns(&seen) {
            self.cache.keep(&seen);
        }
        Ok(seen)
    }

    /// A container of ours, perhaps as it was some time ago: for what does not change.
    pub(super) async fn seen(&self, id: &str) -> Result<Arc<Inspected>, RuntimeError> {
        match self.cache.any(id) {
            Some(seen) => Ok(seen),
            None => self.inspect(id).await,
        }
    }

    pub(super) fn owns(&self, seen: &Inspected) -> bool {
        names::is_owned(&seen.config.labels, &self.planner.owner)
    }

    async fn list(&self, kind: Option<Kind>, sandbox: Option<&str>) -> Result<Vec<Listed>, RuntimeError> {
        let filters = names::filter(&self.planner.owner, kind, sandbox);
        let path = format!(
            "/containers/json{}",
            query([("all", "1"), ("filters", filters.as_str())])
        );
        let listed: Vec<Listed> = self
            .client
            .get(&path, QUICK)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        // The filter is the engine's; whose they are is ours to say.
        Ok(listed
            .into_iter()
            .filter(|entry| names::is_owned(&entry.labels, &self.planner.owner))
            .collect())
    }
}

// --- Of others ---

impl Engine {
    /// How many sandboxes and containers there are of other clusters.
    pub(super) async fn count_other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        let filters = json!({ "label": [labels::NODE] }).to_string();
        let path = format!(
            "/containers/json{}",
            query([("all", "1"), ("filters", filters.as_str())])
        );
        let listed: Vec<Listed> = self
            .client
            .get(&path, QUICK)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        let mut counts = BTreeMap::new();
        let owner = &self.planner.owner;
        for entry in listed {
            if let Some(cluster) = owner.other_cluster(|name| entry.labels.get(name)) {
                *counts.entry(cluster).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// The images of all containers, whosever they are.
    pub(super) async fn list_images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let path = format!("/containers/json{}", query([("all", "1")]));
        let listed: Vec<Listed> = self
            .client
            .get(&path, QUICK)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        let images = listed
            .into_iter()
            .flat_map(|entry| [full_id(&entry.image_id), entry.image]);
        Ok(images.filter(|image| !image.is_empty()).collect())
    }
}

// --- Ending ---

impl Engine {
    /// Asks a container to end, and ends it after `grace`.
    pub(super) async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        self.must_be_ours(id).await?;
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let path = format!(
            "/containers/{id}/stop{}",
            query([("t", seconds.to_string().as_str())])
        );
        let limit = Duration::from_secs(seconds).saturating_add(STOP);
        match self.client.order(&path, limit).await {
            Err(error) if !error.is_not_found() => {
                // An engine may refuse to end what has not begun: that is no failure.
                let is_running = self.inspect(id).await.is_ok_and(|seen| seen.state.running);
                if is_running {
                    return Err(self.failed(error, "stop container"));
                }
                Ok(())
            }
            _ => {
                // The list of an engine may have it as running a little longer, as it was known; asked for it, the engine knows.
                self.cache.forget(id);
                Ok(())
            }
        }
    }

    /// Removes a container with what it wrote, also if it runs.
    pub(super) async fn remove(&self, id: &str) -> Result<(), RuntimeError> {
        self.must_be_ours(id).await?;
        let path = format!("/containers/{id}{}", query([("v", "1"), ("force", "1")]));
        match self.client.delete(&path, QUICK).await {
            Err(error) if !error.is_not_found() && !is_being_removed(&error) => {
                Err(self.failed(error, "remove container"))
            }
            _ => {
                self.cache.removed(id);
                Ok(())
            }
        }
    }

    /// Ends what is in a sandbox, and then the sandbox.
    pub(super) async fn stop_all(&self, sandbox: &str) -> Result<(), RuntimeError> {
        let inside = self.list(None, Some(sandbox)).await?;
        let running = inside.iter().filter(|entry| entry.state == "running");
        let stops: Vec<_> = running
            .map(|entry| self.stop(&entry.id, Duration::ZERO))
            .collect();
        at_once(stops).await?;
        self.stop(sandbox, Duration::ZERO).await
    }

    /// Removes what is in a sandbox, and then the sandbox: Podman removes nothing that others depend on.
    pub(super) async fn remove_all(&self, sandbox: &str) -> Result<(), RuntimeError> {
        let inside = self.list(None, Some(sandbox)).await?;
        let removals: Vec<_> = inside.iter().map(|entry| self.remove(&entry.id)).collect();
        at_once(removals).await?;
        self.remove(sandbox).await
    }

    /// Changes what a container may use.
    pub(super) async fn change_limits(&self, id: &ContainerId, limits: &Limits) -> Result<(), RuntimeError> {
        let (path, body) = match self.planner.flavor {
            Flavor::Docker => (format!("/containers/{id}/update"), json!(limits)),
            // Its own door; the one that is Docker's came later.
            Flavor::Podman => (format!("/libpod/containers/{id}/update"), limits.as_oci()),
        };
        self.client
            .send(&path, &body, QUICK)
            .await
            .map_err(|error| self.failed(error, "update container"))
    }

    /// What is not of this node is not touched, whoever asks. What is gone is nobody's.
    async fn must_be_ours(&self, id: &str) -> Result<(), RuntimeError> {
        if self.cache.is_ours(id) {
            return Ok(());
        }
        match self.inspect(id).await {
            Ok(seen) if !self.owns(&seen) => Err(RuntimeError::Refused(format!(
                "the container {id} is not of this node and cluster, and is left alone"
            ))),
            Ok(_) | Err(RuntimeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Does all of it, some at a time; the first failure is the answer.
async fn at_once(work: Vec<impl Future<Output = Result<(), RuntimeError>>>) -> Result<(), RuntimeError> {
    stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await
}

pub(super) fn is_name_taken(error: &CallError, name: &str) -> bool {
    matches!(error, CallError::Status { message, .. } if message.contains("already in use") && message.contains(name))
}

fn is_image_missing(error: &CallError) -> bool {
    let CallError::Status { message, .. } = error else {
        return false;
    };
    error.is_not_found() || message.to_ascii_lowercase().contains("no such image")
}

pub(super) fn is_being_removed(error: &CallError) -> bool {
    matches!(error, CallError::Status { message, .. } if message.contains("already in progress"))
}
