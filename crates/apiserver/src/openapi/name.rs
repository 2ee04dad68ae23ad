//! What types and groups are called in the documents.

use k3_api::schema::Struct;

/// The name of a type, such as `io.k8s.api.core.v1.Pod`.
pub(super) fn of_struct(of: &Struct) -> String {
    let package = match of.package {
        "meta" => "io.k8s.apimachinery.pkg.apis.meta",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        package => return format!("io.k8s.api.{package}.{}.{}", of.version, of.name),
    };
    format!("{package}.{}.{}", of.version, of.name)
}

/// A group in one word that begins with a small letter: `rbac.authorization.k8s.io` is `rbacAuthorization`.
pub(super) fn of_group(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let mut parts = group.strip_suffix(".k8s.io").unwrap_or(group).split('.');
    let mut word = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        word.push_str(&capital(part));
    }
    word
}

/// A word with a capital letter in front.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_to_tag_name() {
        assert_eq!(of_group(""), "core");
        assert_eq!(of_group("apps"), "apps");
        assert_eq!(of_group("batch"), "batch");
        assert_eq!(of_group("rbac.authorization.k8s.io"), "rbacAuthorization");
        assert_eq!(
            capital(&of_group("flowcontrol.apiserver.k8s.io")),
            "FlowcontrolApiserver"
        );
    }
}
