//! A small type for tests: something like a Deployment, with one of each kind of list and map.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::type_schema::{ListKind, Patch, ScalarKind, Shape, Struct, TypeSchema};

/// A type made by hand.
pub(crate) enum Sample {
    Scalar(ScalarKind),
    Unknown,
    Struct {
        fields: BTreeMap<&'static str, Sample>,
        defaults: BTreeMap<&'static str, Value>,
        atomic: bool,
    },
    Map {
        values: Box<Sample>,
        atomic: bool,
    },
    Atomic(Box<Sample>),
    Set(Box<Sample>),
    Keyed(Box<Sample>, Vec<String>),
}

impl TypeSchema for Sample {
    fn shape(&self) -> Shape<'_> {
        match self {
            Self::Scalar(_) => Shape::Scalar,
            Self::Unknown => Shape::Unknown,
            Self::Struct { .. } => Shape::Struct(self),
            Self::Map { values, atomic } => Shape::Map {
                values: values.as_ref(),
                atomic: *atomic,
            },
            Self::Atomic(items) => Shape::List {
                items: items.as_ref(),
                kind: ListKind::Atomic,
            },
            Self::Set(items) => Shape::List {
                items: items.as_ref(),
                kind: ListKind::Set,
            },
            Self::Keyed(items, keys) => Shape::List {
                items: items.as_ref(),
                kind: ListKind::Map(keys),
            },
        }
    }

    fn scalar(&self) -> ScalarKind {
        match self {
            Self::Scalar(kind) => *kind,
            _ => ScalarKind::Any,
        }
    }
}

impl Struct for Sample {
    fn name(&self) -> &'static str {
        ""
    }

    fn field(&self, name: &str) -> Option<&dyn TypeSchema> {
        let Self::Struct { fields, .. } = self else {
            return None;
        };
        fields.get(name).map(|field| field as &dyn TypeSchema)
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        let Self::Struct { defaults, .. } = self else {
            return None;
        };
        defaults.get(name)
    }

    fn patch(&self, _: &str) -> Patch<'_> {
        Patch::default()
    }

    fn is_atomic(&self) -> bool {
        matches!(self, Self::Struct { atomic: true, .. })
    }

    fn keeps_unknown(&self) -> bool {
        false
    }
}

pub(crate) fn text() -> Sample {
    Sample::Scalar(ScalarKind::String)
}

pub(crate) fn number() -> Sample {
    Sample::Scalar(ScalarKind::Number)
}

pub(crate) fn fields<const N: usize>(fields: [(&'static str, Sample); N]) -> Sample {
    Sample::Struct {
        fields: fields.into(),
        defaults: BTreeMap::new(),
        atomic: false,
    }
}

pub(crate) fn map(values: Sample) -> Sample {
    Sample::Map {
        values: Box::new(values),
        atomic: false,
    }
}

pub(crate) fn keyed<const N: usize>(items: Sample, keys: [&str; N]) -> Sample {
    Sample::Keyed(Box::new(items), keys.map(str::to_owned).to_vec())
}

fn with_defaults<const N: usize>(sample: Sample, defaults: [(&'static str, Value); N]) -> Sample {
    match sample {
        Sample::Struct { fields, atomic, .. } => Sample::Struct {
            fields,
            defaults: defaults.into(),
            atomic,
        },
        other => other,
    }
}

fn metadata() -> Sample {
    fields([
        ("name", text()),
        ("namespace", text()),
        ("uid", text()),
        ("resourceVersion", text()),
        ("generation", number()),
        ("creationTimestamp", text()),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("finalizers", Sample::Set(Box::new(text()))),
        ("managedFields", Sample::Atomic(Box::new(Sample::Unknown))),
    ])
}

fn container() -> Sample {
    let port = fields([
        ("containerPort", number()),
        ("protocol", text()),
        ("name", text()),
    ]);
    let port = with_defaults(port, [("protocol", json!("TCP")), ("containerPort", json!(0))]);
    let container = fields([
        ("name", text()),
        ("image", text()),
        ("command", Sample::Atomic(Box::new(text()))),
        (
            "env",
            keyed(fields([("name", text()), ("value", text())]), ["name"]),
        ),
        ("ports", keyed(port, ["containerPort", "protocol"])),
        (
            "resources",
            fields([("limits", map(Sample::Scalar(ScalarKind::Any)))]),
        ),
    ]);
    with_defaults(container, [("name", json!(""))])
}

/// Something like a Deployment.
pub(crate) fn deployment() -> Sample {
    let selector = Sample::Struct {
        fields: [("matchLabels", map(text()))].into(),
        defaults: BTreeMap::new(),
        atomic: true,
    };
    let pod = fields([
        ("containers", keyed(container(), ["name"])),
        (
            "nodeSelector",
            Sample::Map {
                values: Box::new(text()),
                atomic: true,
            },
        ),
        ("nodeName", text()),
        ("hostNetwork", Sample::Scalar(ScalarKind::Boolean)),
        ("tolerations", Sample::Atomic(Box::new(Sample::Unknown))),
    ]);
    let spec = fields([
        ("replicas", number()),
        ("paused", Sample::Scalar(ScalarKind::Boolean)),
        ("selector", selector),
        ("template", fields([("metadata", metadata()), ("spec", pod)])),
        ("anything", Sample::Unknown),
        (
            "topologyKeys",
            keyed(fields([("key", text()), ("when", text())]), ["key", "when"]),
        ),
    ]);
    fields([
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", metadata()),
        ("spec", spec),
        ("data", map(text())),
        (
            "status",
            fields([
                ("replicas", number()),
                ("conditions", keyed(fields([("type", text())]), ["type"])),
            ]),
        ),
    ])
}
