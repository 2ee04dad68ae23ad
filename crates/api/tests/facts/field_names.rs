//! The names of fields that the rules of kinds are written with. A misspelt one would read as absent, and its rule would never apply.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use k3_api::schema::schema;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// What takes the name of a field, or the names of fields with dots between them.
const CALLS: &[&str] = &[
    ".at(",
    ".at_mut(",
    ".at_path(",
    ".child(",
    ".copy_from(",
    ".ensure_object(",
    ".entries(",
    ".flag(",
    ".has(",
    ".int(",
    ".items(",
    ".items_mut(",
    ".remove(",
    ".set(",
    ".set_default(",
    ".text(",
    ".texts(",
    "Path::new(",
];

/// Names in `crates/api/src/kinds` that no type has.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("apiextensions/conversion.rs", "webhookClientConfig", INTERNAL),
    ("apiextensions/internal_spec.rs", "", "no field: reads as null"),
    ("apiextensions/spec.rs", "validation", INTERNAL),
    ("apiextensions/version.rs", "JSONPath", SPELLING),
    ("apps/deployment.rs", "rollback", INTERNAL),
    ("apps/stateful_set.rs", "Spec", SPELLING),
    ("core/config_map.rs", "", "the path of the whole object"),
    ("core/endpoints.rs", "endpoints.kubernetes.io/managed-by", LABEL),
    ("core/namespace.rs", "Phase", SPELLING),
    ("core/node/annotation.rs", "AvoidPods", SPELLING),
    ("core/node/annotation.rs", "Controller", SPELLING),
    ("core/node/annotation.rs", "PodController", SPELLING),
    ("core/node/annotation.rs", "PodSignature", SPELLING),
    ("core/node/annotation.rs", "podController", ANNOTATION),
    ("core/node/annotation.rs", "podSignature", ANNOTATION),
    ("core/node/annotation.rs", "preferAvoidPods", ANNOTATION),
    ("core/node/mod.rs", "nodeSwapStatus", SPELLING),
    ("core/pod/spec.rs", "", "the path of the whole object"),
    ("core/pod/spec.rs", "deprecatedServiceAccount", INTERNAL),
    ("core/pod/spread.rs", "{topologyKey, whenUnsatisfiable}", SPELLING),
    ("core/pod/status.rs", "Type", SPELLING),
    ("core/pod/subresources.rs", "", "the path of the whole object"),
    ("core/secret/mod.rs", "password", SECRET),
    ("core/secret/mod.rs", "ssh-privatekey", SECRET),
    ("core/service/validation.rs", "LoadBalancerSourceRanges", SPELLING),
    ("core/volume/iscsi.rs", "initiatorname", SPELLING),
    ("core/volume/iscsi.rs", "targetportal", SPELLING),
    (
        "discovery/endpoint_slice.rs",
        "endpointslice.kubernetes.io/managed-by",
        LABEL,
    ),
    ("storage/csi_driver.rs", "attachedRequired", SPELLING),
];

const INTERNAL: &str = "upstream's errors name the field of its internal type";
const SPELLING: &str = "upstream's errors spell the path so";
const LABEL: &str = "the key of a label";
const ANNOTATION: &str = "a field of the JSON in an annotation";
const SECRET: &str = "a key of a Secret's data";

#[test]
fn every_field_name_in_kinds_is_in_the_type_tables() {
    let known = known_names();
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds");
    let mut found = 0;
    let mut unknown = BTreeSet::new();
    for file in sources(&kinds) {
        let name = file.strip_prefix(&kinds).unwrap().display().to_string();
        let literals = literals(&fs::read_to_string(&file).unwrap());
        found += literals.len();
        let literals = literals.into_iter().filter(|literal| !is_known(literal, &known));
        unknown.extend(literals.map(|literal| (name.clone(), literal)));
    }
    let allowed: BTreeSet<_> = ALLOWED
        .iter()
        .map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned()))
        .collect();
    let misspelt: Vec<_> = unknown.difference(&allowed).collect();
    let unused: Vec<_> = allowed.difference(&unknown).collect();
    assert!(
        misspelt.is_empty(),
        "no type has a field of this name: {misspelt:#?}"
    );
    assert!(unused.is_empty(), "allowed, but not used: {unused:#?}");
    assert!(found > 4000, "only {found} names found; is the scan broken?");
}

/// The scan would accept everything if it found nothing.
#[test]
fn a_misspelt_field_is_found() {
    let source = r#"
        let replicas = spec.at("replicas").at_path("template.metadata.labls");
        let other = spec
            .child(
                "selektor",
            );
        let path = Path::new("spec");
        let computed = spec.at(name).format("{}");
        #[cfg(test)]
        mod tests { fn f() { spec.at("onlyInTests"); } }
    "#;
    let known = known_names();
    let literals = literals(source);
    assert_eq!(
        literals,
        ["replicas", "template.metadata.labls", "selektor", "spec"]
    );
    let unknown: Vec<_> = literals
        .iter()
        .filter(|literal| !is_known(literal, &known))
        .collect();
    assert_eq!(unknown, ["template.metadata.labls", "selektor"]);
}

/// The JSON names of the fields of all types.
fn known_names() -> BTreeSet<&'static str> {
    schema()
        .structs()
        .flat_map(|ty| ty.get().all())
        .map(|field| field.name)
        .chain(["apiVersion", "kind"])
        .collect()
}

fn is_known(literal: &str, known: &BTreeSet<&str>) -> bool {
    literal.split('.').all(|name| known.contains(name))
}

/// The literals in a source that are names of fields, without those of its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let mut found: Vec<(usize, String)> = Vec::new();
    for call in CALLS {
        for (at, _) in source.match_indices(call) {
            let argument = source[at + call.len()..].trim_start();
            if let Some(literal) = argument.strip_prefix('"') {
                let end = literal.find('"').unwrap();
                found.push((at, literal[..end].to_owned()));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, literal)| literal).collect()
}

/// The sources below a directory that are not tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != "tests" {
                found.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().unwrap() != "tests.rs"
        {
            found.push(path);
        }
    }
    found
}
