//! What the types and fields of the API mean: what `kubectl explain` prints.
//!
//! Promises: the descriptions are those of v1.37. They lie in the program deflated, and are inflated as a whole when the
//! first one is asked for; a server that is never asked does not pay for them.
//!
//! Types have the names they have in `OpenAPI` documents, such as `io.k8s.api.core.v1.PodSpec`.

use std::{io::Read, sync::OnceLock};

use flate2::read::DeflateDecoder;

/// The table: for each type, in the order of their names, `\x1e`, the name, a tab and the description; then for
/// each of its fields `\x1f`, the name, a tab and the description.
static DEFLATED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/table.deflate"));

/// What a type is; `None` if it is not known, or if nothing is said.
pub fn of_type(name: &str) -> Option<&'static str> {
    let entry = find(name)?;
    let own = entry.split('\u{1f}').next()?;
    described(own.split_once('\t')?.1)
}

/// What a field of a type is; `None` if it is not known, or if nothing is said.
pub fn of_field(name: &str, field: &str) -> Option<&'static str> {
    let fields = find(name)?.split('\u{1f}').skip(1);
    let mut fields = fields.filter_map(|entry| entry.split_once('\t'));
    described(fields.find(|(known, _)| *known == field)?.1)
}

fn described(text: &'static str) -> Option<&'static str> {
    (!text.is_empty()).then_some(text)
}

/// The part of the table that is about a type.
fn find(name: &str) -> Option<&'static str> {
    let types = types();
    let of = |entry: &&'static str| entry.split_once('\t').map_or("", |(known, _)| known);
    let position = types.binary_search_by_key(&name, of).ok()?;
    Some(types[position])
}

/// The table, cut at the types.
fn types() -> &'static [&'static str] {
    static TYPES: OnceLock<Vec<&'static str>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let mut table = String::new();
        DeflateDecoder::new(DEFLATED)
            .read_to_string(&mut table)
            .expect("the table was deflated by the build");
        // It is never let go of: descriptions are handed out for as long as the process lives.
        let table: &'static str = Box::leak(table.into_boxed_str());
        table.split('\u{1e}').skip(1).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    #[test]
    fn describes_types_and_fields() {
        let kind = of_type(POD).unwrap();
        assert!(kind.starts_with("Pod is a collection of containers"), "{kind}");
        let field = of_field(POD, "spec").unwrap();
        assert!(
            field.starts_with("Specification of the desired behavior of the pod."),
            "{field}"
        );
        let other = of_type("io.k8s.api.core.v1.PodSpec").unwrap();
        assert_eq!(other, "PodSpec is a description of a pod.");
    }

    #[test]
    fn what_is_not_there_has_none() {
        assert_eq!(of_type("io.k8s.api.core.v1.Po"), None);
        assert_eq!(of_field(POD, "specs"), None);
        assert_eq!(of_field("", ""), None);
    }

    #[test]
    fn types_that_kinds_merely_reach_are_there() {
        for name in [
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            "io.k8s.api.policy.v1.Eviction",
        ] {
            assert!(of_type(name).is_some(), "{name}");
        }
    }

    /// Types are searched by halves.
    #[test]
    fn types_are_in_the_order_of_their_names() {
        let names: Vec<_> = types()
            .iter()
            .map(|entry| entry.split_once('\t').unwrap().0)
            .collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(names.len() > 500, "{}", names.len());
    }
}
