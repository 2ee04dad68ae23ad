//! Sets of plugins.

// upstream: pkg/scheduler/framework/runtime/framework.go pluginsNeeded; it returns a set of names

/// The number of a plugin among all plugins of a scheduler; plugins of the same name in several profiles share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PluginId(u8);

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PluginSet(u64);

impl PluginId {
    /// The id at an index.
    ///
    /// # Panics
    ///
    /// From [`PluginSet::CAPACITY`] on.
    pub(crate) fn new(index: usize) -> Self {
        let id = u8::try_from(index).ok().filter(|_| index < PluginSet::CAPACITY);
        PluginId(id.expect("a scheduler has at most 64 plugins of different names"))
    }

    /// The index of the plugin among all plugins of the scheduler.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl PluginSet {
    const CAPACITY: usize = 64;

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a plugin.
    pub(crate) fn insert(&mut self, plugin: PluginId) {
        self.0 |= 1 << plugin.0;
    }

    /// Whether the sets have a plugin in common.
    pub(crate) fn intersects(self, other: PluginSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The plugins, in the order of their ids.
    pub(crate) fn iter(self) -> impl Iterator<Item = PluginId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let id = u8::try_from(rest.trailing_zeros()).ok().filter(|_| rest != 0)?;
            rest &= rest - 1;
            Some(PluginId(id))
        })
    }
}

impl Extend<PluginId> for PluginSet {
    fn extend<I: IntoIterator<Item = PluginId>>(&mut self, plugins: I) {
        plugins.into_iter().for_each(|plugin| self.insert(plugin));
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        let mut set = PluginSet::default();
        set.extend(plugins);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterates_over_inserted_plugins() {
        let indices = [0, 5, 63];
        let set: PluginSet = indices.into_iter().map(PluginId::new).collect();
        assert!(set.iter().map(PluginId::index).eq(indices));
        assert!(!set.intersects([PluginId::new(1)].into_iter().collect()));
        assert!(set.intersects([PluginId::new(5)].into_iter().collect()));
    }
}
