//! Factories of plugins.

use std::{fmt::Debug, sync::Arc};

use super::{SchedulerPlugin, dyn_plugin::DynPlugin};

/// Makes the instances of a plugin. Instances are not shared: a plugin may cache what it counted in the cluster of one
/// scheduler.
// upstream: pkg/scheduler/framework/runtime/registry.go PluginFactory
#[derive(Clone)]
pub(crate) struct PluginFactory {
    name: &'static str,
    weight: i64,
    make: Arc<dyn Fn() -> Box<dyn DynPlugin> + Send + Sync>,
}

impl PluginFactory {
    /// A factory that calls `make` for each instance.
    pub(crate) fn new<P: SchedulerPlugin>(make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        let plugin = make();
        PluginFactory {
            name: plugin.name(),
            weight: plugin.weight(),
            make: Arc::new(move || Box::new(make())),
        }
    }

    /// The name of the plugin.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The default weight of the plugin.
    pub(crate) fn weight(&self) -> i64 {
        self.weight
    }

    /// A new instance.
    pub(crate) fn instance(&self) -> Box<dyn DynPlugin> {
        (self.make)()
    }
}

impl Debug for PluginFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
