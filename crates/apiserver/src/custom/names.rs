//! Accepted names of CustomResourceDefinitions: within a group, a name belongs to the definition that got it first.

use std::collections::HashSet;

use k3_api::{
    go,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::conditions::DefinitionCondition;

/// The names that the definitions of a group were given.
#[derive(Default)]
pub(super) struct TakenNames {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

// --- TakenNames ---

impl TakenNames {
    /// Adds the names a definition was given.
    pub(super) fn add(&mut self, names: &Value) {
        for field in ["plural", "singular"] {
            self.resources.insert(names.text(field).to_owned());
        }
        self.resources
            .extend(names.texts("shortNames").map(str::to_owned));
        for field in ["kind", "listKind"] {
            self.kinds.insert(names.text(field).to_owned());
        }
    }
}

/// The accepted names of a definition, and the resulting condition.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go NamingConditionController
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go calculateNamesAndConditions
pub(super) fn accept(crd: &Value, taken: &TakenNames) -> (Value, DefinitionCondition) {
    let wanted = crd.at("spec").at("names");
    let given = crd.at("status").at("acceptedNames");
    let mut accepted = given.clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{} is already in use", go::quote(name));
    let fields = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (field, reason, used) in fields {
        if field == "shortNames" {
            let own: Vec<&str> = given.texts(field).collect();
            let lost: Vec<String> = wanted
                .texts(field)
                .filter(|name| !own.contains(name) && used.contains(*name))
                .map(in_use)
                .collect();
            match lost.as_slice() {
                [] => keep(&mut accepted, wanted, field),
                [only] => conflict = Some((reason, only.clone())),
                // Without duplicates.
                many => conflict = Some((reason, format!("[{}]", unique(many).join(", ")))),
            }
            continue;
        }
        let name = wanted.text(field);
        if name != given.text(field) && used.contains(name) {
            conflict = Some((reason, in_use(name)));
        } else {
            keep(&mut accepted, wanted, field);
        }
    }
    keep(&mut accepted, wanted, "categories");
    let condition = match conflict {
        Some((reason, message)) => DefinitionCondition::unmet("NamesAccepted", reason, message),
        None => DefinitionCondition::met("NamesAccepted", "NoConflicts", "no conflicts found"),
    };
    (accepted, condition)
}

fn keep(accepted: &mut Value, wanted: &Value, field: &str) {
    if wanted.has(field) {
        accepted.copy_from(field, wanted);
    } else {
        accepted.remove(field);
    }
}

fn unique(texts: &[String]) -> Vec<&str> {
    let mut unique_names: Vec<&str> = Vec::new();
    for text in texts {
        if !unique_names.contains(&text.as_str()) {
            unique_names.push(text);
        }
    }
    unique_names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({"spec": {"names": {
            "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
            "shortNames": short,
        }}})
    }

    fn given(mut crd: Value) -> Value {
        let names = crd.at("spec").at("names").clone();
        crd.ensure_object("status").set("acceptedNames", names);
        crd
    }

    #[test]
    fn accepts_free_names() {
        let (names, condition) = accept(&crd("widgets", "Widget", &["w"]), &TakenNames::default());
        assert_eq!(&names, crd("widgets", "Widget", &["w"]).at("spec").at("names"));
        assert_eq!(
            (condition.status, condition.reason.as_str()),
            ("True", "NoConflicts")
        );
    }

    #[test]
    fn rejects_taken_name_and_accepts_others() {
        let mut taken = TakenNames::default();
        taken.add(
            given(crd("widgets", "Widget", &["w"]))
                .at("status")
                .at("acceptedNames"),
        );
        let (names, condition) = accept(&crd("gadgets", "Gadget", &["w", "g"]), &taken);
        assert_eq!(condition.reason, "ShortNamesConflict");
        assert_eq!(condition.message, "\"w\" is already in use");
        assert_eq!(names.text("kind"), "Gadget");
        assert!(!names.has("shortNames"));
    }

    #[test]
    fn reports_last_conflict() {
        let mut taken = TakenNames::default();
        taken.add(
            given(crd("widgets", "Widget", &[]))
                .at("status")
                .at("acceptedNames"),
        );
        let (names, condition) = accept(&crd("widgets2", "Widget", &[]), &taken);
        assert_eq!(condition.reason, "ListKindConflict");
        assert_eq!(names.text("plural"), "widgets2");
        assert_eq!(names.text("kind"), "");
    }

    #[test]
    fn definition_keeps_accepted_names() {
        let own = given(crd("widgets", "Widget", &["w"]));
        let mut taken = TakenNames::default();
        taken.add(own.at("status").at("acceptedNames"));
        assert_eq!(accept(&own, &taken).1.status, "True");
    }
}
