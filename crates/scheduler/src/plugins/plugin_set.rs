//! The rules by name.

macro_rules! plugins {
    ($($name:ident)*) => {
        /// A rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Plugin {
            $(
                #[doc = concat!("Upstream's ", stringify!($name), ".")]
                $name
            ),*
        }

        impl Plugin {
            /// All, in the order in which they are asked.
            pub const ALL: &[Plugin] = &[$(Plugin::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Plugin::$name => stringify!($name)),* }
            }
        }
    };
}

plugins! {
    SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit
    VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DefaultPreemption
    NodeResourcesBalancedAllocation ImageLocality DefaultBinder
}

/// A set of rules.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
// upstream: pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry
pub struct PluginSet(u32);

impl PluginSet {
    /// All rules.
    pub fn all() -> Self {
        Plugin::ALL.iter().copied().collect()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a rule is among them.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }

    /// Takes a rule in.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u32;
    }

    /// Leaves a rule out.
    pub fn remove(&mut self, plugin: Plugin) {
        self.0 &= !(1 << plugin as u32);
    }

    /// Whether the two have a rule in common.
    pub fn intersects(self, other: PluginSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The rules, in the order in which they are asked.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL
            .iter()
            .copied()
            .filter(move |plugin| self.contains(*plugin))
    }

    /// Their names, sorted, in brackets.
    pub fn names(self) -> String {
        let mut names: Vec<_> = self.iter().map(Plugin::name).collect();
        names.sort_unstable();
        format!("[{}]", names.join(" "))
    }
}

impl Extend<Plugin> for PluginSet {
    fn extend<I: IntoIterator<Item = Plugin>>(&mut self, plugins: I) {
        plugins.into_iter().for_each(|plugin| self.insert(plugin));
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Self {
        let mut set = PluginSet::default();
        set.extend(plugins);
        set
    }
}

impl std::fmt::Debug for PluginSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.names())
    }
}
