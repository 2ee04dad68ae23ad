//! The table of served CustomResourceDefinitions.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use k3_api::{
    kinds::{KindRef, builtin},
    strategy::{SelectableField, Tree},
};
use k3_storage::Revision;
use parking_lot::RwLock;
use serde_json::Value;

use super::ServedDefinition;
use crate::cache::CachedObject;

/// Where definitions are stored.
pub(crate) const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// The definitions whose objects are served. Follows the feed of the caches.
#[derive(Default)]
pub(crate) struct DefinitionRegistry {
    /// Definitions are read before the lock is taken: what is in it is replaced as a whole.
    table: RwLock<Arc<DefinitionsByName>>,
    /// Counts the changes of what is served.
    generation: AtomicU64,
}

/// Counts the changes of the definitions that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionsGeneration(u64);

/// Definitions by name.
type DefinitionsByName = BTreeMap<Box<str>, Arc<ServedDefinition>>;

/// The definitions whose objects are served, as of one revision.
pub(crate) struct DefinitionTable(Arc<DefinitionsByName>);

/// What a change of a definition means for the cache of its objects.
pub(crate) struct DefinitionChange {
    /// The beginning of their keys.
    pub prefix: String,
    /// The fields they can be selected by.
    pub selectable: Arc<[SelectableField]>,
    /// Whether they are served no more.
    pub deleted: bool,
}

// --- DefinitionRegistry ---

impl DefinitionRegistry {
    /// Applies a committed definition or its deletion. Returns a change if its objects are served differently.
    pub(crate) fn follow(
        &self,
        name: &str,
        crd: Option<&Value>,
        revision: Revision,
    ) -> Option<DefinitionChange> {
        let before = self.named(name);
        let after = crd
            .filter(|crd| !overlaps(crd))
            .and_then(|crd| ServedDefinition::read(crd, revision, before.as_ref()))
            .map(Arc::new);
        if before.is_none() && after.is_none() {
            return None;
        }
        let mut table = self.table.write();
        let entries = Arc::make_mut(&mut table);
        match &after {
            Some(after) => drop(entries.insert(name.into(), Arc::clone(after))),
            None => drop(entries.remove(name)),
        }
        drop(table);
        self.generation.fetch_add(1, Ordering::AcqRel);
        if let (Some(before), Some(after)) = (&before, &after)
            && before.serves_same_as(after)
        {
            return None;
        }
        let served = after.as_ref().or(before.as_ref())?;
        Some(DefinitionChange {
            prefix: prefix(served),
            deleted: after.is_none(),
            selectable: after
                .as_ref()
                .map_or_else(|| [].into(), |after| after.selectable()),
        })
    }

    /// The table of definitions that are stored. Those that `is_known` are the ones that are served already.
    pub(crate) fn read_all<'o>(
        &self,
        stored: impl Iterator<Item = &'o Arc<CachedObject>>,
        is_known: impl Fn(&Arc<CachedObject>) -> bool,
    ) -> DefinitionTable {
        let mut entries = DefinitionsByName::new();
        for object in stored {
            let name = object.name();
            // What one says that is not decrypted is not known yet: what it said before stays.
            let served = if is_known(object) || object.undecrypted().is_some() {
                self.named(name)
            } else {
                let crd = object.tree();
                // What it said before does not count: it may have said something else in between.
                let served = if overlaps(&crd) {
                    None
                } else {
                    ServedDefinition::read(&crd, object.revision, None)
                };
                served.map(Arc::new)
            };
            if let Some(served) = served {
                entries.insert(name.into(), served);
            }
        }
        DefinitionTable(Arc::new(entries))
    }

    /// Replaces all of them.
    pub(crate) fn replace(&self, table: DefinitionTable) {
        *self.table.write() = table.0;
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// All of them, as they are.
    pub(crate) fn table(&self) -> DefinitionTable {
        DefinitionTable(self.all())
    }

    /// The definition of a resource.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<Arc<ServedDefinition>> {
        self.named(&format!("{plural}.{group}"))
    }

    /// The kind of a resource in a version that is served.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<KindRef> {
        self.find(group, plural)?.served(version)
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Arc<DefinitionsByName> {
        Arc::clone(&self.table.read())
    }

    /// Changes with what is served.
    pub(crate) fn generation(&self) -> DefinitionsGeneration {
        DefinitionsGeneration(self.generation.load(Ordering::Acquire))
    }

    fn named(&self, name: &str) -> Option<Arc<ServedDefinition>> {
        let table = self.table.read();
        table.get(name).cloned()
    }
}

// --- DefinitionsGeneration ---

impl DefinitionsGeneration {
    /// Before any definition.
    pub(crate) const FIRST: Self = DefinitionsGeneration(0);
}

// --- DefinitionTable ---

impl DefinitionTable {
    /// The fields that the objects of each can be selected by, with the prefix of their keys.
    pub(crate) fn selectable(&self) -> impl Iterator<Item = (String, Arc<[SelectableField]>)> {
        self.0
            .values()
            .map(|served| (prefix(served), served.selectable()))
    }
}

/// Where the objects of a definition are stored.
fn prefix(served: &ServedDefinition) -> String {
    format!(
        "/registry/{}/{}/",
        served.definition.group, served.definition.names.plural
    )
}

/// Whether a definition names a resource that is built in: that is never replaced, nor are its objects touched.
pub(super) fn overlaps(crd: &Value) -> bool {
    let spec = crd.at("spec");
    let group = spec.text("group");
    let plural = spec.at("names").text("plural");
    builtin()
        .all()
        .iter()
        .any(|kind| kind.group == group && kind.plural == plural)
}
