//! Parser of the table of built-in kinds (`kinds.table`).
//!
//! ```text
//! group apps v1                                  group (`-` is the core group) and version of what follows
//! deployments deployment Deployment namespaced stored verbs=* short=deploy categories=all
//!  scale autoscaling/v1/Scale verbs=get,patch,update
//!  status Deployment verbs=get,patch,update      a subresource; its kind is of the same group unless given with a group
//! ```
//!
//! `verbs=*` are the eight verbs of stored objects. The table is compiled in: a malformed line panics.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go APIResource, APIResourceList

use super::registry::{Kind, Persistence, Registry, Scope, Subresource};
use crate::{schema::schema, text::SharedText};
use std::collections::HashMap;

const TABLE: &str = include_str!("kinds.table");

const ALL_VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";

// --- Registry ---

impl Registry {
    pub(super) fn read() -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut group = "";
        let mut version = "";
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            if let Some(subresource) = line.strip_prefix(' ') {
                let owner = kinds.last_mut().expect("a subresource follows its resource");
                owner
                    .subresources
                    .push(Subresource::read(subresource, group, version));
            } else if let Some(heading) = line.strip_prefix("group ") {
                let (name, group_version) = heading.split_once(' ').expect("a group has a version");
                group = if name == "-" { "" } else { name };
                version = group_version;
            } else {
                kinds.push(Kind::read(line, group, version));
            }
        }
        let enumerated = || kinds.iter().enumerate();
        let by_kind: HashMap<_, _> = enumerated()
            .map(|(i, k)| ((fixed(&k.group), fixed(&k.version), fixed(&k.kind)), i))
            .collect();
        let by_resource = enumerated()
            .map(|(i, k)| ((fixed(&k.group), fixed(&k.version), fixed(&k.plural)), i))
            .collect();
        Self {
            kinds,
            by_kind,
            by_resource,
        }
    }
}

// --- Kind ---

impl Kind {
    fn read(line: &'static str, group: &'static str, version: &'static str) -> Self {
        let columns: Vec<&'static str> = line.split(' ').collect();
        let [plural, singular, kind, scope, persistence, ref marks @ ..] = columns[..] else {
            panic!("table of kinds: too short: {line:?}");
        };
        let ty = schema().kind(group, version, kind);
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: singular.into(),
            short_names: texts(marks, "short="),
            categories: texts(marks, "categories="),
            scope: match scope {
                "cluster" => Scope::Cluster,
                "namespaced" => Scope::Namespaced,
                _ => panic!("table of kinds: unknown scope: {line:?}"),
            },
            persistence: match persistence {
                "stored" => Persistence::Stored,
                "virtual" => Persistence::Virtual,
                _ => panic!("table of kinds: neither stored nor virtual: {line:?}"),
            },
            verbs: verbs(marks),
            subresources: Vec::new(),
            ty: ty
                .unwrap_or_else(|| panic!("table of kinds: no such type: {line:?}"))
                .into(),
            strategy: None,
        }
    }
}

// --- Subresource ---

impl Subresource {
    fn read(line: &'static str, group: &'static str, version: &'static str) -> Self {
        let columns: Vec<&'static str> = line.split(' ').collect();
        let [name, kind_column, ref marks @ ..] = columns[..] else {
            panic!("table of kinds: too short: {line:?}");
        };
        let parts: Vec<&'static str> = kind_column.split('/').collect();
        let (group, version, kind) = match parts[..] {
            [group, version, kind] => (group, version, kind),
            _ => (group, version, kind_column),
        };
        let ty = schema().kind(group, version, kind);
        let ty = ty.unwrap_or_else(|| panic!("table of kinds: no such type: {line:?}"));
        Self {
            name,
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: verbs(marks),
            ty: ty.into(),
        }
    }
}

fn list(marks: &[&'static str], name: &str) -> Vec<&'static str> {
    let value = marks.iter().find_map(|mark| mark.strip_prefix(name));
    value.map(|value| value.split(',').collect()).unwrap_or_default()
}

fn verbs(marks: &[&'static str]) -> Vec<&'static str> {
    match list(marks, "verbs=")[..] {
        ["*"] => ALL_VERBS.split(',').collect(),
        ref some => some.to_vec(),
    }
}

fn texts(marks: &[&'static str], name: &str) -> Vec<SharedText> {
    list(marks, name).into_iter().map(SharedText::from).collect()
}

fn fixed(text: &SharedText) -> &'static str {
    match text {
        SharedText::Fixed(text) => text,
        SharedText::Shared(_) => unreachable!("the table is compiled in"),
    }
}
