//! The state of the store in etcd, and the conversion of etcd's revisions to those of the store.

use bytes::Bytes;

use super::{
    failure::EtcdFailure,
    keyspace::Keyspace,
    messages::{Compare, KeyValue, PutRequest, RangeRequest, ResponseOp, TxnRequest, TxnResponse},
    session::range_of,
};
use crate::{
    OpenError, Prefix, Revision, StoreError,
    format::{self, MigrationPlan},
};

/// Migration steps between layouts; none yet. `check` runs them.
#[derive(Debug, PartialEq, Eq)]
enum MigrationStep {}

const STEPS: &[MigrationStep] = &[];

/// The value of the state key at a revision. It changes only when an import starts or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EtcdStoreState {
    pub(super) phase: EtcdStorePhase,
    /// The difference of the store's revisions to etcd's. Never decreases.
    pub(super) offset: u64,
    /// The etcd revision at the start of the last finished import; zero for none.
    pub(super) import: i64,
    /// The etcd revision of this value.
    pub(super) written: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdStorePhase {
    Open,
    Importing,
}

// --- EtcdStoreState ---

impl EtcdStoreState {
    /// The value of the state key.
    pub(super) fn text(phase: EtcdStorePhase, offset: u64, import: i64) -> Bytes {
        let phase = match phase {
            EtcdStorePhase::Open => "open",
            EtcdStorePhase::Importing => "importing",
        };
        format!("phase={phase} offset={offset} import={import}").into()
    }

    /// Parses the response to a range of the state key.
    pub(super) fn read(response: Option<ResponseOp>) -> Result<Self, StoreError> {
        Self::parse(range_of(response)?.kvs.first())
    }

    pub(super) fn parse(kv: Option<&KeyValue>) -> Result<Self, StoreError> {
        let kv = kv.ok_or_else(|| StoreError::Corrupt("its state key in etcd is missing".to_owned()))?;
        let text = String::from_utf8_lossy(&kv.value);
        let field = |name: &str| {
            text.split(' ')
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let read = || {
            Some(Self {
                phase: match field("phase")? {
                    "open" => EtcdStorePhase::Open,
                    "importing" => EtcdStorePhase::Importing,
                    _ => return None,
                },
                offset: field("offset")?.parse().ok()?,
                import: field("import")?.parse().ok()?,
                written: kv.mod_revision,
            })
        };
        read().ok_or_else(|| StoreError::Corrupt(format!("its state key in etcd holds {text:?}")))
    }

    /// Converts an etcd revision to one of the store.
    pub(super) fn revision(&self, etcd: i64) -> Revision {
        Revision::new(self.offset + u64::try_from(etcd).unwrap_or(0))
    }

    /// Converts a revision of the store to an etcd revision; negative, and so invalid, if it precedes the offset.
    pub(super) fn etcd(&self, revision: Revision) -> i64 {
        match revision.get().checked_sub(self.offset) {
            Some(0) | None => -1,
            Some(etcd) => i64::try_from(etcd).unwrap_or(i64::MAX),
        }
    }

    /// The oldest valid revision: before it the store did not exist, or had contents that an import replaced.
    pub(super) fn floor(&self) -> Revision {
        self.revision(self.written)
    }
}

/// Writes the initial state if there is none.
pub(super) fn founding(keys: &Keyspace) -> TxnRequest {
    let entries = keys.entries(&Prefix::all(), None);
    TxnRequest {
        // If two processes start concurrently, one writes and the other reads.
        compare: vec![
            Compare::written_at(keys.format(), 0),
            Compare::nothing_in(entries.start, entries.end),
        ],
        success: vec![
            PutRequest {
                key: keys.format(),
                value: format::newest(STEPS).to_string().into(),
                lease: 0,
            }
            .into(),
            PutRequest {
                key: keys.state(),
                value: EtcdStoreState::text(EtcdStorePhase::Open, 0, 0),
                lease: 0,
            }
            .into(),
        ],
        failure: vec![
            RangeRequest::of(keys.format()).into(),
            RangeRequest::of(keys.state()).into(),
        ],
    }
}

/// What the answer to [`founding`] reports.
pub(super) fn check(answer: TxnResponse, location: &str) -> Result<EtcdStoreState, OpenError> {
    if answer.succeeded {
        return Ok(EtcdStoreState {
            phase: EtcdStorePhase::Open,
            offset: 0,
            import: 0,
            written: answer.revision(),
        });
    }
    let mut found = answer.responses.into_iter().map(|op| op.into_range()?.kvs.pop());
    let format = found.next().flatten();
    let state = found.next().flatten();
    let text = format.map(|kv| String::from_utf8_lossy(&kv.value).into_owned());
    let number = text.as_deref().map(|text| text.parse::<u32>().unwrap_or(0));
    match format::plan_migration(location, number, STEPS)? {
        MigrationPlan::Current => Ok(EtcdStoreState::parse(state.as_ref())?),
        MigrationPlan::Fresh => {
            let message = format!("{location} holds entries but does not say in which format");
            Err(StoreError::Corrupt(message).into())
        }
        MigrationPlan::Migrate { steps, .. } => match steps[0] {},
    }
}

impl From<StoreError> for EtcdFailure {
    fn from(error: StoreError) -> Self {
        Self::Ours(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: impl Into<Bytes>) -> KeyValue {
        KeyValue {
            value: text.into().into(),
            mod_revision: 7,
            ..KeyValue::default()
        }
    }

    #[test]
    fn a_state_survives_a_round_trip() {
        let kv = stored(EtcdStoreState::text(EtcdStorePhase::Importing, 1000, 5));
        let state = EtcdStoreState::parse(Some(&kv)).unwrap();
        assert_eq!(
            state,
            EtcdStoreState {
                phase: EtcdStorePhase::Importing,
                offset: 1000,
                import: 5,
                written: 7
            }
        );
        assert_eq!(state.floor(), Revision::new(1007));
        for damaged in [
            "",
            "open",
            "phase=open offset=x import=0",
            "phase=ajar offset=0 import=0",
        ] {
            assert!(
                EtcdStoreState::parse(Some(&stored(damaged))).is_err(),
                "{damaged}"
            );
        }
        assert!(EtcdStoreState::parse(None).is_err());
    }

    #[test]
    fn revisions_survive_a_round_trip() {
        let kv = stored(EtcdStoreState::text(EtcdStorePhase::Open, 1000, 0));
        let state = EtcdStoreState::parse(Some(&kv)).unwrap();
        assert_eq!(state.etcd(state.revision(12)), 12);
        // Zero would mean "newest" to a range and "absent" to a comparison.
        assert_eq!(state.etcd(Revision::new(1000)), -1);
        assert_eq!(state.etcd(Revision::ZERO), -1);
        assert_eq!(state.etcd(Revision::new(u64::MAX)), i64::MAX);
    }
}
