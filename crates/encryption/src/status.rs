//! Which keys the stored values of encrypted resources are encrypted with.

use std::collections::BTreeMap;

use k3_storage::{Page, Prefix, ReadError};

use crate::{EncryptedStore, resource::GroupResource, unreadable::ENCRYPTED};

/// Where all objects are stored.
const ROOT: &str = "/registry/";
/// How many entries are read at a time.
const PAGE: usize = 1000;

/// The resources that the configuration has, or that have encrypted values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// By group and resource.
    pub resources: Vec<ResourceStatus>,
}

/// The values of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceStatus {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// What values are encrypted with now, as provider and key.
    pub current: String,
    /// How many values are encrypted with what.
    pub counts: BTreeMap<String, u64>,
    /// How many values would be encrypted otherwise today.
    pub stale: u64,
}

// --- EncryptedStore ---

impl EncryptedStore {
    /// Reads all values and counts them.
    pub async fn status(&self) -> Result<EncryptionStatus, ReadError> {
        let root = Prefix::try_new(ROOT).expect("the root is a prefix");
        let mut found: BTreeMap<GroupResource, ResourceStatus> = BTreeMap::new();
        let mut page = Page::first(PAGE);
        loop {
            let range = self.encrypted().range(&root, page).await?;
            for entry in &range.entries {
                let Some(resource) = GroupResource::of_key(&entry.key) else {
                    continue;
                };
                let current = self.transformers().current_label(&resource);
                let is_encrypted = entry.value.starts_with(ENCRYPTED);
                if current.is_none() && !is_encrypted {
                    continue;
                }
                let is_current = self.transformers().is_current(&resource, &entry.value);
                let status = found.entry(resource.clone()).or_insert_with(|| ResourceStatus {
                    group: resource.group,
                    resource: resource.resource,
                    current: current.unwrap_or_else(|| "identity".to_owned()),
                    counts: BTreeMap::new(),
                    stale: 0,
                });
                *status.counts.entry(label(&entry.value)).or_default() += 1;
                status.stale += u64::from(!is_current);
            }
            let Some(next) = range.next(PAGE) else {
                break;
            };
            page = next;
        }
        Ok(EncryptionStatus {
            resources: found.into_values().collect(),
        })
    }
}

/// Provider and key of a stored value.
fn label(stored: &[u8]) -> String {
    let Some(rest) = stored.strip_prefix(ENCRYPTED) else {
        return "identity".to_owned();
    };
    let mut parts = rest.splitn(4, |byte| *byte == b':');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let provider = text();
    let _version = text();
    format!("{provider}:{}", text())
}
