//! How the scheduler becomes part of a manager.

use kubecontroller::manager::{BoxError, Manager, Setup};

use super::{NAME, Scheduler};
use crate::profile::Profile;

/// Installs the scheduler into a manager, with its client, informers and recorders.
#[derive(Clone, Debug)]
pub struct SchedulerSetup {
    profiles: Vec<Profile>,
}

impl Default for SchedulerSetup {
    fn default() -> Self {
        SchedulerSetup {
            profiles: vec![Profile::default()],
        }
    }
}

impl SchedulerSetup {
    /// With rules of one's own.
    pub fn new(profiles: Vec<Profile>) -> Self {
        SchedulerSetup { profiles }
    }
}

impl Setup for SchedulerSetup {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resource(&self) -> &'static str {
        "pods"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let scheduler = Scheduler::with_profiles(
            manager.client().clone(),
            manager.informers().clone(),
            manager.clock().clone(),
            |name| manager.recorder(name),
            self.profiles.clone(),
        );
        let scheduler = scheduler.metrics(manager.metrics());
        manager.add(scheduler);
        Ok(())
    }
}
