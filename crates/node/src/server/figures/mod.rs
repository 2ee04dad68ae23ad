//! What pods and the machine use.
//!
//! ```text
//! machine   what the whole machine uses, from /proc
//! summary   all of it as /stats/summary has it
//! text      the same in the text that Prometheus reads
//! ```
//!
//! Nothing is measured while nobody asks. What is used per second is the difference between two looks: the last one if it was
//! not long ago, else a look is taken twice, a moment apart.

mod machine;
mod summary;
mod text;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::Clock;
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use self::machine::Machine;
pub(super) use self::{
    summary::summary,
    text::{cadvisor, resource},
};
use super::lookup::{Lookup, limited, no_runtime};
use crate::{
    PodIdentity,
    runtime::{ContainerUsage, Runtime, RuntimeError},
};

/// Looks that are nearer than this tell nothing about a second; those that are older nothing about now.
const NEAREST: Duration = Duration::from_millis(500);
const OLDEST: Duration = Duration::from_mins(1);

/// Looks at what is used, and remembers the last look.
pub(super) struct Sampler {
    node: String,
    folder: PathBuf,
    clock: Clock,
    last: Mutex<Option<Arc<Sample>>>,
}

/// What was used at one moment.
pub(super) struct Sample {
    at: Instant,
    time: Timestamp,
    machine: Machine,
    containers: Vec<ContainerUsage>,
    /// What images take, and on which file system; unknown if the runtime does not tell.
    images: Option<u64>,
}

/// A look at what is used, and the one before it.
pub(super) struct Figures {
    pub node: String,
    pub now: Arc<Sample>,
    /// Processor time per second of wall time, in nanoseconds: of containers, and of the machine.
    rates: HashMap<(PodIdentity, String), u64>,
    machine_rate: u64,
}

// --- Sampler ---

impl Sampler {
    pub(super) fn new(node: String, folder: PathBuf, clock: Clock) -> Self {
        Sampler {
            node,
            folder,
            clock,
            last: Mutex::default(),
        }
    }

    /// What is used now. Who asks while a look is being taken gets that one.
    pub(super) async fn figures(&self, lookup: &dyn Lookup) -> Result<Figures, RuntimeError> {
        let runtime = lookup.runtime().ok_or_else(no_runtime)?;
        let mut last = self.last.lock().await;
        let before = match last.take() {
            Some(sample) if sample.at.elapsed() < OLDEST => sample,
            _ => Arc::new(self.look(&*runtime).await?),
        };
        // Two looks at the same moment tell no rate.
        time::sleep_until(before.at + NEAREST).await;
        let now = Arc::new(self.look(&*runtime).await?);
        *last = Some(Arc::clone(&now));
        Ok(Figures::new(self.node.clone(), &before, now))
    }

    async fn look(&self, runtime: &dyn Runtime) -> Result<Sample, RuntimeError> {
        let containers = limited("measuring containers", runtime.usage()).await?;
        let images = limited("measuring images", runtime.image_filesystem()).await.ok();
        Ok(Sample {
            at: Instant::now(),
            time: self.clock.now(),
            machine: machine::look(&self.folder).await,
            containers,
            images: images.map(|images| images.used),
        })
    }
}

// --- Figures ---

impl Figures {
    fn new(node: String, before: &Sample, now: Arc<Sample>) -> Self {
        let seconds = (now.at - before.at).as_secs_f64();
        let key = |usage: &ContainerUsage| (usage.pod.clone(), usage.name.clone());
        let known: HashMap<_, _> = before
            .containers
            .iter()
            .map(|usage| (key(usage), usage.cpu_nanoseconds))
            .collect();
        let rates = now.containers.iter().filter_map(|usage| {
            let key = key(usage);
            // A container that was restarted counts from nothing again.
            let used = usage.cpu_nanoseconds.checked_sub(*known.get(&key)?)?;
            Some((key, per_second(used, seconds)))
        });
        let machine = now
            .machine
            .cpu_nanoseconds
            .saturating_sub(before.machine.cpu_nanoseconds);
        Figures {
            node,
            rates: rates.collect(),
            machine_rate: per_second(machine, seconds),
            now,
        }
    }

    /// What a container uses of processors per second, if that is known.
    fn rate(&self, usage: &ContainerUsage) -> Option<u64> {
        self.rates.get(&(usage.pod.clone(), usage.name.clone())).copied()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate is small, never below nothing, and no more exact than the clock"
)]
fn per_second(used: u64, seconds: f64) -> u64 {
    if seconds <= 0.0 {
        return 0;
    }
    (used as f64 / seconds) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(pod: &str, name: &str, cpu: u64) -> ContainerUsage {
        ContainerUsage {
            pod: PodIdentity {
                namespace: "n".to_owned(),
                name: pod.to_owned(),
                uid: format!("{pod}-uid"),
            },
            name: name.to_owned(),
            cpu_nanoseconds: cpu,
            memory: 2000,
            memory_working_set: 1000,
            writable_layer: 10,
            pids: 3,
            network: name.is_empty().then_some((5, 6)),
        }
    }

    fn sample(at: Instant, cpu: u64) -> Sample {
        Sample {
            at,
            time: "2026-11-16T12:00:00Z".parse().unwrap(),
            machine: Machine {
                cpu_nanoseconds: cpu * 10,
                memory_total: 100,
                memory_used: 60,
                memory_working_set: 50,
                ..Machine::default()
            },
            containers: vec![usage("p", "", 0), usage("p", "a", cpu), usage("p", "b", 7)],
            images: Some(1),
        }
    }

    fn figures() -> Figures {
        let at = Instant::now();
        let before = sample(at, 1_000_000_000);
        let now = sample(at + Duration::from_secs(10), 2_000_000_000);
        Figures::new("node".to_owned(), &before, Arc::new(now))
    }

    #[tokio::test]
    async fn a_summary_adds_up_the_containers_of_a_pod() {
        let summary = summary(&figures(), &[]);
        assert_eq!(summary["node"]["nodeName"], "node");
        assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 1_000_000_000);
        assert_eq!(summary["node"]["memory"]["workingSetBytes"], 50);
        let pod = &summary["pods"][0];
        assert_eq!(
            pod["podRef"],
            json!({"name": "p", "namespace": "n", "uid": "p-uid"})
        );
        assert_eq!(pod["containers"].as_array().unwrap().len(), 2);
        assert_eq!(pod["containers"][0]["cpu"]["usageNanoCores"], 100_000_000);
        assert_eq!(pod["cpu"]["usageNanoCores"], 100_000_000);
        assert_eq!(pod["memory"]["workingSetBytes"], 3000);
        assert_eq!(pod["network"]["rxBytes"], 5);
    }

    #[tokio::test]
    async fn figures_are_told_as_prometheus_reads_them() {
        let text = resource(&figures(), &[]);
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{container=\"a\",namespace=\"n\",pod=\"p\"} 2 1794830400000",
            "container_memory_working_set_bytes{container=\"a\",namespace=\"n\",pod=\"p\"} 1000 1794830400000",
            "pod_memory_working_set_bytes{namespace=\"n\",pod=\"p\"} 3000 1794830400000",
            "node_memory_working_set_bytes 50 1794830400000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let cadvisor = cadvisor(&figures());
        assert!(
            cadvisor.contains("container_network_receive_bytes_total{"),
            "{cadvisor}"
        );
    }

    #[test]
    fn who_was_restarted_has_no_rate_yet() {
        let at = Instant::now();
        let figures = Figures::new(
            String::new(),
            &sample(at, 9),
            Arc::new(sample(at + Duration::from_secs(1), 3)),
        );
        assert_eq!(figures.rate(&usage("p", "a", 3)), None);
        assert_eq!(figures.rate(&usage("p", "b", 7)), Some(0));
    }
}
