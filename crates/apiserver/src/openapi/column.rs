//! Descriptions of table columns that show a field.

use k3_api::{
    kinds::{Kind, builtin},
    schema::{StructRef, Type, schema},
};

use super::name;

/// The description of a field of a kind's objects, as in `spec.replicas`; empty if there is none. Lists and maps
/// are passed through: `spec.rules.host` is a field of each rule. A kind that is served in many versions is described
/// in the words of the preferred one, as its columns are.
pub(crate) fn column_description(kind: &Kind, field_path: &str) -> &'static str {
    let mut versions = builtin().all().iter();
    let preferred = versions.find(|other| other.group == kind.group && other.kind == kind.kind);
    let (mut at, field_path) = match preferred.unwrap_or(kind).ty.table() {
        Some(at) => (at, field_path),
        // Of custom objects only the metadata are known here.
        None => match (
            schema().get("meta", "v1", "ObjectMeta"),
            field_path.split_once('.'),
        ) {
            (Some(at), Some(("metadata", rest))) => (at, rest),
            _ => return "",
        },
    };
    let mut steps = field_path.split('.').peekable();
    while let Some(step) = steps.next() {
        let of = at.get();
        let Some(field) = of.named(step) else {
            return "";
        };
        if steps.peek().is_none() {
            return k3_descriptions::of_field(&name::of_struct(of), step).unwrap_or_default();
        }
        match within(&field.ty) {
            Some(inner) => at = inner,
            None => return "",
        }
    }
    ""
}

/// The struct that a type is or holds.
fn within(ty: &Type) -> Option<StructRef> {
    match ty {
        Type::Struct(of) => Some(*of),
        Type::List(items) => within(items),
        Type::Map(values, _) => within(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k3_api::{
        kinds::builtin,
        strategy::{self, ColumnDescription},
    };
    use serde_json::Value;

    use super::*;

    fn description(group: &str, version: &str, kind: &str, path: &str) -> &'static str {
        column_description(builtin().kind(group, version, kind).unwrap(), path)
    }

    #[test]
    fn describes_last_field_of_path() {
        let replicas = description("apps", "v1", "Deployment", "spec.replicas");
        assert!(replicas.starts_with("Number of desired pods."), "{replicas}");
        let metrics = description("autoscaling", "v1", "HorizontalPodAutoscaler", "spec.metrics");
        assert!(
            metrics.starts_with("metrics contains the specifications"),
            "{metrics}"
        );
        let host = description("networking.k8s.io", "v1", "Ingress", "spec.rules.host");
        assert!(
            host.starts_with("host is the fully qualified domain name"),
            "{host}"
        );
    }

    #[test]
    fn unknown_path_has_no_description() {
        assert_eq!(description("apps", "v1", "Deployment", "spec.bogus"), "");
        assert_eq!(description("apps", "v1", "Deployment", "spec.replicas.more"), "");
        assert_eq!(description("apps", "v1", "Deployment", ""), "");
    }

    #[test]
    fn every_column_field_is_described() {
        let mut seen = 0;
        for kind in builtin().all() {
            for column in strategy::for_kind(kind).columns() {
                if let ColumnDescription::Field(path) = column.description {
                    assert_ne!(column_description(kind, path), "", "{} {path}", kind.kind);
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn column_descriptions_match_recordings() {
        let Some(directory) = std::env::var_os("K3_GOLDEN") else {
            println!("left out: no recordings (set K3_GOLDEN)");
            return;
        };
        let mut seen = 0;
        for file in std::fs::read_dir(std::path::Path::new(&directory).join("cases/list-get")).unwrap() {
            let case: Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
            for step in case["steps"].as_array().unwrap() {
                let Some(theirs) = step["expect"]["body"]["columnDefinitions"].as_array() else {
                    continue;
                };
                let path = step["path"].as_str().unwrap();
                let kind = kind_at(path).unwrap_or_else(|| panic!("{path}"));
                for (ours, theirs) in strategy::for_kind(kind).columns().iter().zip(theirs) {
                    let text = match &ours.description {
                        ColumnDescription::Text(text) => text.as_ref(),
                        ColumnDescription::Field(field) => column_description(kind, field),
                    };
                    assert_eq!(theirs["description"], text, "{} {}", kind.kind, ours.name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 50, "{seen}");
    }

    /// The kind at a path of the API.
    fn kind_at(path: &str) -> Option<&'static Kind> {
        let parts: Vec<_> = path.split(['/', '?']).skip(1).collect();
        let (group, version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] => ("", version, rest),
            ["apis", group, version, ref rest @ ..] => (group, version, rest),
            _ => return None,
        };
        let (["namespaces", _, plural, ..] | [plural, ..]) = rest else {
            return None;
        };
        builtin().resource(group, version, plural)
    }
}
