//! A controller that works without a pause, and writes down who worked.

use std::{fs::OpenOptions, io::Write, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kubecontroller::{
    controller::{Error, Outcome, reconcile_fn},
    informer::InformerScope,
    manager::{BoxError, Manager, Setup},
};

/// Ticks for every config map with the label `tick`.
pub(crate) struct Ticker;

impl Setup for Ticker {
    fn name(&self) -> &'static str {
        "ticker"
    }

    fn resource(&self) -> &'static str {
        "ticks"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let maps = manager
            .informers()
            .metadata::<ConfigMap>(InformerScope::default().labels("tick"));
        let file = manager.config().controller_setting("ticker.file").to_owned();
        let controller = manager
            .controller("ticker")
            .for_(&maps)
            .reconciler(reconcile_fn(move |_| {
                let file = file.clone();
                async move {
                    // One write of a line: those of two processes do not mix.
                    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
                    file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
                    Ok::<_, Error>(Outcome::RequeueAfter(Duration::from_millis(20)))
                }
            }));
        manager.add(controller);
        Ok(())
    }
}
