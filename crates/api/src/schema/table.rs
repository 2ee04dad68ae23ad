//! The type table: all built-in types by name.

use super::field::{Field, Struct, StructRef};
use super::text::{Entry, TypePackage};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The files, in the order of their names.
const FILES: [&str; 27] = [
    include_str!("types/admission_v1.types"),
    include_str!("types/admissionregistration_v1.types"),
    include_str!("types/apidiscovery_v2.types"),
    include_str!("types/apiextensions_v1.types"),
    include_str!("types/apiregistration_v1.types"),
    include_str!("types/apps_v1.types"),
    include_str!("types/authentication_v1.types"),
    include_str!("types/authorization_v1.types"),
    include_str!("types/autoscaling_v1.types"),
    include_str!("types/autoscaling_v2.types"),
    include_str!("types/batch_v1.types"),
    include_str!("types/certificates_v1.types"),
    include_str!("types/coordination_v1.types"),
    include_str!("types/core_v1.types"),
    include_str!("types/discovery_v1.types"),
    include_str!("types/events_v1.types"),
    include_str!("types/flowcontrol_v1.types"),
    include_str!("types/meta_v1.types"),
    include_str!("types/networking_v1.types"),
    include_str!("types/node_v1.types"),
    include_str!("types/policy_v1.types"),
    include_str!("types/rbac_v1.types"),
    include_str!("types/resource_v1.types"),
    include_str!("types/scheduling_v1.types"),
    include_str!("types/scheduling_v1alpha3.types"),
    include_str!("types/storage_v1.types"),
    include_str!("types/storagemigration_v1.types"),
];

/// The package of the types that belong to every group.
const META: (&str, &str) = ("meta", "v1");

/// The types of the built-in kinds.
#[derive(Debug)]
pub struct Schema {
    structs: Vec<Struct>,
    /// By package, version and name.
    names: HashMap<(&'static str, &'static str, &'static str), u32>,
    /// The package of an API group and version.
    groups: HashMap<(&'static str, &'static str), &'static str>,
    /// The type of every JSON schema within a custom resource definition.
    json: StructRef,
}

/// The table. The first call reads it.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(Schema::read)
}

// --- Schema ---

impl Schema {
    /// The type of a kind; `None` if it is not built in. Kinds that belong to every group, such as `Status`
    /// and `DeleteOptions`, are found in each.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<StructRef> {
        let own = self
            .groups
            .get(&(group, version))
            .and_then(|package| self.get(package, version, kind));
        own.or_else(|| self.get(META.0, META.1, kind))
            .filter(|found| found.get().is_kind)
    }

    /// A type by package, version and name, such as `core`, `v1`, `PodSpec`.
    pub fn get(&self, package: &str, version: &str, name: &str) -> Option<StructRef> {
        let index = *self.names.get(&(package, version, name))?;
        Some(StructRef { index, atomic: None })
    }

    /// The type of a JSON schema within a custom resource definition.
    pub fn json_schema(&self) -> StructRef {
        self.json
    }

    /// Every type.
    pub fn structs(&self) -> impl Iterator<Item = StructRef> {
        (0u32..)
            .zip(&self.structs)
            .map(|(index, _)| StructRef { index, atomic: None })
    }

    /// The API group a package belongs to; empty for the core group.
    pub fn group_of(&self, package: &str, version: &str) -> Option<&'static str> {
        let mut groups = self.groups.iter();
        groups
            .find(|((_, v), p)| **p == package && *v == version)
            .map(|((group, _), _)| *group)
    }

    pub(super) fn at(&self, index: u32) -> &Struct {
        &self.structs[index as usize]
    }

    pub(super) fn field_at(&self, owner: u32, position: u32) -> &Field {
        &self.structs[owner as usize].fields[position as usize]
    }

    fn read() -> Self {
        let packages = FILES.map(TypePackage::read);
        let mut names = HashMap::new();
        let mut groups = HashMap::new();
        let mut count = 0;
        for package in &packages {
            groups.insert((package.group, package.version), package.name);
            for entry in &package.types {
                names.insert((package.name, package.version, entry.name), count);
                count += 1;
            }
        }
        let mut structs = Vec::with_capacity(count as usize);
        for package in &packages {
            let lookup = |spelled: &str| {
                let mut parts = spelled.rsplitn(2, '.');
                let name = parts.next()?;
                let (of, version) = match parts.next() {
                    Some(other) => other.split_once('.')?,
                    None => (package.name, package.version),
                };
                let index = *names.get(&(of, version, name))?;
                Some(StructRef { index, atomic: None })
            };
            structs.extend(
                package
                    .types
                    .iter()
                    .map(|entry| Struct::read(package, entry, &lookup)),
            );
        }
        let json = StructRef {
            index: names[&("apiextensions", "v1", "JSONSchemaProps")],
            atomic: None,
        };
        let mut schema = Self {
            structs,
            names,
            groups,
            json,
        };
        schema.flatten();
        schema
    }

    /// Gives each struct the names of its JSON form.
    fn flatten(&mut self) {
        for index in 0u32.. {
            if index as usize == self.structs.len() {
                break;
            }
            let mut names = Vec::new();
            let mut shown = Vec::new();
            self.gather(index, &mut names, &mut shown);
            names.sort_unstable_by_key(|&(name, ..): &(&str, u32, u32)| (name.len(), name));
            let of = &mut self.structs[index as usize];
            (of.names, of.shown) = (names, shown);
        }
    }

    fn gather(&self, index: u32, names: &mut Vec<(&'static str, u32, u32)>, shown: &mut Vec<(u32, u32)>) {
        for (position, field) in (0u32..).zip(&self.at(index).fields) {
            match &field.ty {
                super::Type::Struct(inner) if field.is_inline() => self.gather(inner.index, names, shown),
                _ => {
                    names.push((field.name, index, position));
                    if field.is_always() {
                        shown.push((index, position));
                    }
                }
            }
        }
    }
}

// --- Struct ---

impl Struct {
    fn read(package: &TypePackage, entry: &Entry, lookup: super::text::TypeLookup<'_>) -> Self {
        let mut fields = Vec::with_capacity(entry.lines.len() + 2);
        if entry.is_kind {
            fields.extend([Field::of_kind("kind"), Field::of_kind("apiVersion")]);
        }
        fields.extend(entry.lines.iter().map(|line| Field::read(line, lookup)));
        Self {
            name: entry.name,
            package: package.name,
            version: package.version,
            is_kind: entry.is_kind,
            atomic: entry.atomic,
            fields,
            names: Vec::new(),
            shown: Vec::new(),
        }
    }
}
