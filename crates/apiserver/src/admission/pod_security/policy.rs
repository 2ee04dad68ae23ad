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
pub(super) enum PodSecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

/// The version of Kubernetes whose idea of a level counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodSecurityVersion {
    /// `v1.<minor>`.
    Minor(i64),
    /// The newest there is.
    Latest,
}

/// A level as a version of Kubernetes understood it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub level: PodSecurityLevel,
    pub version: PodSecurityVersion,
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamespacePodSecurity {
    /// Who breaks it is refused.
    pub enforce: LevelVersion,
    /// Who breaks it is noted.
    pub audit: LevelVersion,
    /// Who breaks it is warned.
    pub warn: LevelVersion,
}

/// What labels say of one standard.
struct StandardLabels {
    level: Option<Result<PodSecurityLevel, ()>>,
    version: Option<PodSecurityVersion>,
}

// --- NamespacePodSecurity ---

// upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go PolicyToEvaluate, ParseLevel, ParseVersion
impl NamespacePodSecurity {
    /// Reads the labels of a namespace. What cannot be understood is named, and taken for the strictest where it is enforced.
    pub(super) fn read<'l>(label: impl Fn(&str) -> Option<&'l str>) -> (Self, Vec<Error>) {
        const LEVELS: &str = "must be one of privileged, baseline, restricted";
        const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";
        let mut errors = Vec::new();
        let [enforce, audit, warn] = LABELS.map(|[level, version]| StandardLabels {
            level: read(level, &label, PodSecurityLevel::parse, LEVELS, &mut errors),
            version: read(version, &label, PodSecurityVersion::parse, VERSIONS, &mut errors)
                .map(|version| version.unwrap_or(PodSecurityVersion::Latest)),
        });
        let mut policy = NamespacePodSecurity {
            enforce: enforce.standard(PodSecurityLevel::Restricted),
            audit: audit.standard(PodSecurityLevel::Privileged),
            warn: warn.standard(PodSecurityLevel::Privileged),
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
        all.all(|standard| standard.level == PodSecurityLevel::Privileged)
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
    fn standard(&self, wrong: PodSecurityLevel) -> LevelVersion {
        LevelVersion {
            level: match self.level {
                Some(level) => level.unwrap_or(wrong),
                None => PodSecurityLevel::Privileged,
            },
            version: self.version.unwrap_or(PodSecurityVersion::Latest),
        }
    }
}

// --- LevelVersion ---

impl LevelVersion {
    /// Whether a pod that kept to the other one may break this one.
    pub(super) fn asks_more_than(self, other: LevelVersion) -> bool {
        self != other
            && self.level != PodSecurityLevel::Privileged
            && (self.version != other.version || self.level > other.level)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            PodSecurityLevel::Privileged => "privileged",
            PodSecurityLevel::Baseline => "baseline",
            PodSecurityLevel::Restricted => "restricted",
        };
        match self.version {
            PodSecurityVersion::Minor(minor) => write!(f, "{level}:v1.{minor}"),
            PodSecurityVersion::Latest => write!(f, "{level}:latest"),
        }
    }
}

// --- PodSecurityLevel ---

impl PodSecurityLevel {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(PodSecurityLevel::Privileged),
            "baseline" => Some(PodSecurityLevel::Baseline),
            "restricted" => Some(PodSecurityLevel::Restricted),
            _ => None,
        }
    }
}

// --- PodSecurityVersion ---

impl PodSecurityVersion {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(PodSecurityVersion::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_number = minor.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || (minor.len() > 1 && minor.starts_with('0')) {
            return None;
        }
        minor.parse().ok().map(PodSecurityVersion::Minor)
    }
}
