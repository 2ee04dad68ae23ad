//! The rules as they are written.

use std::{collections::BTreeMap, fmt, time::Duration};

use k3_api::quantity::Quantity;
use kubecontroller::selector::Selector;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::duration;

/// A file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) seed: u64,
    pub(super) nodes: Vec<NodeRule>,
    pub(super) pods: Vec<PodRule>,
}

/// What some nodes are and do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodeRule {
    #[serde(rename = "match")]
    pub(super) matches: NodeMatch,
    /// Where they are, in turn.
    pub(super) zones: Vec<String>,
    /// Where the zones are.
    pub(crate) region: Option<String>,
    /// More labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// What they have of what; what is not named is as usual.
    #[serde(deserialize_with = "amounts")]
    pub(crate) capacity: BTreeMap<String, String>,
    /// When they stop to be heard of.
    pub(crate) vanish: Option<VanishRule>,
}

/// Which nodes, by number.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodeMatch {
    pub(super) first: u32,
    pub(super) last: Option<u32>,
}

/// A node is not heard of any more.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct VanishRule {
    /// From when it was made.
    #[serde(deserialize_with = "duration::read")]
    pub(crate) after: Duration,
    #[serde(deserialize_with = "duration::read")]
    pub(crate) jitter: Duration,
    /// Until it is heard of again; otherwise for good.
    #[serde(rename = "for", deserialize_with = "duration::read_some")]
    pub(crate) length: Option<Duration>,
}

/// What some pods do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PodRule {
    #[serde(rename = "match")]
    pub(super) matches: PodMatch,
    /// Until containers run.
    pub(crate) run: Delay,
    /// From when they run until they are ready.
    pub(crate) ready: Ready,
    /// From when they run until they end.
    pub(crate) exit: Option<ExitRule>,
    /// How long termination takes.
    pub(crate) stop: Delay,
}

/// Which pods: all for which all that is named holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PodMatch {
    pub(super) namespace: Option<String>,
    #[serde(deserialize_with = "selector")]
    pub(super) labels: Selector,
    #[serde(deserialize_with = "selector")]
    pub(super) annotations: Selector,
    /// The kind of the owner that controls it.
    pub(super) owner: Option<String>,
}

/// How long something takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    /// At least.
    pub(crate) after: Duration,
    /// At most so much more.
    pub(crate) jitter: Duration,
}

/// When containers are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    After(Delay),
    Never,
}

/// How and when containers end.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExitRule {
    #[serde(deserialize_with = "duration::read")]
    pub(crate) after: Duration,
    #[serde(deserialize_with = "duration::read")]
    pub(crate) jitter: Duration,
    /// With which code.
    pub(crate) code: u8,
    /// How often: after that they run on.
    pub(crate) times: Option<u32>,
}

/// Reads a file; the error has line and reason.
pub(super) fn read(text: &str) -> Result<File, String> {
    let file: Option<File> = serde_saphyr::from_str(text).map_err(|error| {
        // The message is shown with a picture of the place; its first line says it all.
        let why = error.to_string();
        let why = why.lines().next().unwrap_or_default();
        match error.location() {
            Some(location) if !why.contains("line ") => {
                format!("line {}, column {}: {why}", location.line(), location.column())
            }
            _ => why.to_owned(),
        }
    })?;
    let file = file.unwrap_or_default();
    for (at, rule) in file.nodes.iter().enumerate() {
        let NodeMatch { first, last } = rule.matches;
        if last.is_some_and(|last| last < first) {
            return Err(format!(
                "nodes[{at}].match: last must not be less than first ({first})"
            ));
        }
    }
    if file.pods.len() > usize::from(u16::MAX) / 2 {
        return Err(format!("pods: {} rules are too many", file.pods.len()));
    }
    Ok(file)
}

// --- fields ---

fn selector<'de, D: Deserializer<'de>>(from: D) -> Result<Selector, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

fn amounts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let amounts = BTreeMap::<String, String>::deserialize(from)?;
    for (name, amount) in &amounts {
        if let Err(wrong) = amount.parse::<Quantity>() {
            return Err(D::Error::custom(format!(
                "{name}: {amount:?} is not an amount: {wrong}"
            )));
        }
    }
    Ok(amounts)
}

// --- Delay ---

/// A delay with its parts.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RuleParts {
    #[serde(deserialize_with = "duration::read")]
    after: Duration,
    #[serde(deserialize_with = "duration::read")]
    jitter: Duration,
}

impl From<RuleParts> for Delay {
    fn from(RuleParts { after, jitter }: RuleParts) -> Self {
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
        f.write_str("a length of time such as 2s, or one with jitter such as {after: 2s, jitter: 1s}")
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
        RuleParts::deserialize(MapAccessDeserializer::new(map)).map(Delay::from)
    }
}

// --- Ready ---

impl Default for Ready {
    fn default() -> Self {
        Ready::After(Delay::default())
    }
}

impl<'de> Deserialize<'de> for Ready {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadyVisitor)
    }
}

struct ReadyVisitor;

impl<'de> Visitor<'de> for ReadyVisitor {
    type Value = Ready;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("never, or ")?;
        DelayVisitor.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Ready, E> {
        if text == "never" {
            return Ok(Ready::Never);
        }
        DelayVisitor.visit_str(text).map(Ready::After)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Ready, E> {
        DelayVisitor.visit_u64(number).map(Ready::After)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Ready, E> {
        DelayVisitor.visit_i64(number).map(Ready::After)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Ready, M::Error> {
        DelayVisitor.visit_map(map).map(Ready::After)
    }
}
