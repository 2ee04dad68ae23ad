//! How the scheduler becomes part of a manager.

use kubecontroller::manager::{BoxError, Manager, Setup};

use super::{NAME, Scheduler};
use crate::profile::Profile;

/// Installs the scheduler into a manager, with its client, informers and recorders.
#[derive(Clone, Debug)]
pub struct Install {
    profiles: Vec<Profile>,
}

impl Default for Install {
    fn default() -> Self {
        Install {
            profiles: vec![Profile::default()],
        }
    }
}

impl Install {
    /// With rules of one's own.
    pub fn new(profiles: Vec<Profile>) -> Self {
        Install { profiles }
    }
}

impl Setup for Install {
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
