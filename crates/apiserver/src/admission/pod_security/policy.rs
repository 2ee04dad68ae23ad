//! The Pod Security policy of a namespace: levels and versions from its labels (enforce, audit, warn).

use std::fmt;

use k3_api::field::{Error, Path};

/// The labels for the level and the version of what is enforced, noted and warned of.
const LABELS: [[&str; 2]; 3] = [
    [
        "pod-security.kubernetes.io/enforce",
        "pod-security.kubernetes.io/enforce-version",
    ],
    [
        "pod-security.kubernetes.io/audit",
        "pod-security.kubernetes.io/audit-version",
    ],
    [
        "pod-security.kubernetes.io/warn",
        "pod-security.kubernetes.io/warn-version",
    ],
];

/// How strict a standard is, from the widest to the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The version of Kubernetes whose idea of a level counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// `v1.<minor>`.
    Minor(i64),
    /// The newest there is.
    Latest,
}

/// A level as a version of Kubernetes understood it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub level: Level,
    pub version: Version,
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Who breaks it is refused.
    pub enforce: Standard,
    /// Who breaks it is noted.
    pub audit: Standard,
    /// Who breaks it is warned.
    pub warn: Standard,
}

/// What labels say of one standard.
struct StandardLabels {
    level: Option<Result<Level, ()>>,
    version: Option<Version>,
}

// --- Policy ---

// upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go PolicyToEvaluate, ParseLevel, ParseVersion
impl Policy {
    /// Reads the labels of a namespace. What cannot be understood is named, and taken for the strictest where it is enforced.
    pub(super) fn read<'l>(label: impl Fn(&str) -> Option<&'l str>) -> (Self, Vec<Error>) {
        const LEVELS: &str = "must be one of privileged, baseline, restricted";
        const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";
        let mut errors = Vec::new();
        let [enforce, audit, warn] = LABELS.map(|[level, version]| StandardLabels {
            level: read(level, &label, Level::parse, LEVELS, &mut errors),
            version: read(version, &label, Version::parse, VERSIONS, &mut errors)
                .map(|version| version.unwrap_or(Version::Latest)),
        });
        let mut policy = Policy {
            enforce: enforce.standard(Level::Restricted),
            audit: audit.standard(Level::Privileged),
            warn: warn.standard(Level::Privileged),
        };
        // Who enforces something warns of it too, unless it says what to warn of.
        if warn.level.is_none() && matches!(enforce.level, Some(Ok(level)) if level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if warn.version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Whether it asks for nothing.
    pub(super) fn is_privileged(&self) -> bool {
        let mut all = [self.enforce, self.audit, self.warn].into_iter();
        all.all(|standard| standard.level == Level::Privileged)
    }
}

/// The parsed value of a label, if set. Invalid values are added to the errors.
fn read<'l, T>(
    name: &str,
    label: &impl Fn(&str) -> Option<&'l str>,
    parse: fn(&str) -> Option<T>,
    wanted: &str,
    errors: &mut Vec<Error>,
) -> Option<Result<T, ()>> {
    let text = label(name)?;
    let value = parse(text);
    if value.is_none() {
        let metadata = Path::new("metadata");
        let labels = metadata.child("labels");
        errors.push(Error::invalid(&labels.key(name), text, wanted));
    }
    Some(value.ok_or(()))
}

// --- StandardLabels ---

impl StandardLabels {
    /// The standard, with a level for the case that the label is wrong.
    fn standard(&self, wrong: Level) -> Standard {
        Standard {
            level: match self.level {
                Some(level) => level.unwrap_or(wrong),
                None => Level::Privileged,
            },
            version: self.version.unwrap_or(Version::Latest),
        }
    }
}

// --- Standard ---

impl Standard {
    /// Whether a pod that kept to the other one may break this one.
    pub(super) fn asks_more_than(self, other: Standard) -> bool {
        self != other
            && self.level != Level::Privileged
            && (self.version != other.version || self.level > other.level)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
            Version::Latest => write!(f, "{level}:latest"),
        }
    }
}

// --- Level ---

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

// --- Version ---

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_number = minor.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || (minor.len() > 1 && minor.starts_with('0')) {
            return None;
        }
        minor.parse().ok().map(Version::Minor)
    }
}
