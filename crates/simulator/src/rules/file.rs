//! The format of rules files.

use std::{collections::BTreeMap, fmt, time::Duration};

use k3_api::quantity::Quantity;
use kubecontroller::selector::Selector;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{ParseRulesError, duration};

/// The content of a rules file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RulesFile {
    pub(super) seed: u64,
    pub(super) nodes: Vec<NodeRule>,
    pub(super) pods: Vec<PodRule>,
}

/// The rule of some nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodeRule {
    #[serde(rename = "match")]
    pub(super) matches: NodeMatch,
    /// Topology zones, assigned to the nodes in turn.
    pub(super) zones: Vec<String>,
    /// The topology region.
    pub(crate) region: Option<String>,
    /// Additional labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Capacity by resource; other resources keep their defaults.
    #[serde(deserialize_with = "quantities")]
    pub(crate) capacity: BTreeMap<String, String>,
    /// When the nodes stop reporting.
    pub(crate) vanish: Option<VanishRule>,
}

/// Selects nodes by number.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodeMatch {
    pub(super) first: u32,
    pub(super) last: Option<u32>,
}

/// A node stops renewing its lease and reporting its status.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct VanishRule {
    /// The delay from the creation of the node.
    #[serde(deserialize_with = "duration::read")]
    pub(crate) after: Duration,
    #[serde(deserialize_with = "duration::read")]
    pub(crate) jitter: Duration,
    /// How long the node is down; forever if unset.
    #[serde(rename = "for", deserialize_with = "duration::read_some")]
    pub(crate) length: Option<Duration>,
}

/// The rule of some pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PodRule {
    #[serde(rename = "match")]
    pub(super) matches: PodMatch,
    /// From binding to running containers.
    pub(crate) run: Delay,
    /// From running to ready.
    pub(crate) ready: ReadyRule,
    /// From running to exit.
    pub(crate) exit: Option<ExitRule>,
    /// Duration of termination.
    pub(crate) stop: Delay,
}

/// Selects pods that meet all the given criteria.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PodMatch {
    pub(super) namespace: Option<String>,
    #[serde(deserialize_with = "selector")]
    pub(super) labels: Selector,
    #[serde(deserialize_with = "selector")]
    pub(super) annotations: Selector,
    /// The kind of the controller owner.
    pub(super) owner: Option<String>,
}

/// A delay with jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    /// The minimum.
    pub(crate) after: Duration,
    /// The maximum that is added to the minimum.
    pub(crate) jitter: Duration,
}

/// When containers become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyRule {
    After(Delay),
    Never,
}

/// How and when containers exit.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExitRule {
    #[serde(deserialize_with = "duration::read")]
    pub(crate) after: Duration,
    #[serde(deserialize_with = "duration::read")]
    pub(crate) jitter: Duration,
    /// The exit code.
    pub(crate) code: u8,
    /// Maximum number of exits; afterwards the containers keep running. Unlimited if unset.
    pub(crate) times: Option<u32>,
}

/// Parses a rules file.
pub(super) fn read(text: &str) -> Result<RulesFile, ParseRulesError> {
    let file: Option<RulesFile> = serde_saphyr::from_str(text).map_err(yaml_error)?;
    // An empty document is a file without rules.
    let file = file.unwrap_or_default();
    for (at, rule) in file.nodes.iter().enumerate() {
        let NodeMatch { first, last } = rule.matches;
        if last.is_some_and(|last| last < first) {
            return Err(ParseRulesError::InvertedRange { at, first });
        }
    }
    if file.pods.len() > usize::from(u16::MAX) / 2 {
        return Err(ParseRulesError::TooManyPodRules(file.pods.len()));
    }
    Ok(file)
}

/// An error with its location, and without the other lines of the message, which quote the document.
fn yaml_error(error: serde_saphyr::Error) -> ParseRulesError {
    let message = error.to_string();
    let why = message.lines().next().unwrap_or(&message);
    let message = match error.location() {
        Some(location) if !why.contains("line ") => {
            format!("line {}, column {}: {why}", location.line(), location.column())
        }
        _ => why.to_owned(),
    };
    ParseRulesError::Yaml {
        message,
        source: Box::new(error),
    }
}

// --- fields ---

fn selector<'de, D: Deserializer<'de>>(from: D) -> Result<Selector, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

fn quantities<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let quantities = BTreeMap::<String, String>::deserialize(from)?;
    for (name, amount) in &quantities {
        if let Err(wrong) = amount.parse::<Quantity>() {
            return Err(D::Error::custom(format!(
                "{name}: {amount:?} is not a quantity: {wrong}"
            )));
        }
    }
    Ok(quantities)
}

// --- Delay ---

/// A delay in its map form.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DelayFields {
    #[serde(deserialize_with = "duration::read")]
    after: Duration,
    #[serde(deserialize_with = "duration::read")]
    jitter: Duration,
}

impl From<DelayFields> for Delay {
    fn from(DelayFields { after, jitter }: DelayFields) -> Self {
        Delay { after, jitter }
    }
}

impl ExitRule {
    pub(crate) fn delay(self) -> Delay {
        let ExitRule { after, jitter, .. } = self;
        Delay { after, jitter }
    }
}

impl VanishRule {
    pub(crate) fn delay(self) -> Delay {
        let VanishRule { after, jitter, .. } = self;
        Delay { after, jitter }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DelayVisitor)
    }
}

struct DelayVisitor;

impl<'de> Visitor<'de> for DelayVisitor {
    type Value = Delay;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 2s, or one with jitter such as {after: 2s, jitter: 1s}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Delay, E> {
        let after = duration::parse(text).map_err(E::custom)?;
        Ok(Delay {
            after,
            ..Delay::default()
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Delay, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Delay, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Delay, M::Error> {
        DelayFields::deserialize(MapAccessDeserializer::new(map)).map(Delay::from)
    }
}

// --- ReadyRule ---

impl Default for ReadyRule {
    fn default() -> Self {
        ReadyRule::After(Delay::default())
    }
}

impl<'de> Deserialize<'de> for ReadyRule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadyVisitor)
    }
}

struct ReadyVisitor;

impl<'de> Visitor<'de> for ReadyVisitor {
    type Value = ReadyRule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("never, or ")?;
        DelayVisitor.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ReadyRule, E> {
        if text == "never" {
            return Ok(ReadyRule::Never);
        }
        DelayVisitor.visit_str(text).map(ReadyRule::After)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ReadyRule, E> {
        DelayVisitor.visit_u64(number).map(ReadyRule::After)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ReadyRule, E> {
        DelayVisitor.visit_i64(number).map(ReadyRule::After)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<ReadyRule, M::Error> {
        DelayVisitor.visit_map(map).map(ReadyRule::After)
    }
}
