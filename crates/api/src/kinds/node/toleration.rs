//! Tolerations that a runtime class adds to its pods.

use serde_json::Value;

use crate::{
    field::{Error, Path, Shown},
    go,
    kinds::faults,
    name,
    rules::{Errors, Tree},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const OPERATORS: [&str; 4] = ["Equal", "Exists", "Lt", "Gt"];

/// What tells tolerations apart.
const KEY: [&str; 4] = ["key", "operator", "value", "effect"];

/// What is wrong with tolerations. None stands there twice.
pub(super) fn validate_all(tolerations: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate(toleration, &at.index(index), errors);
    }
    for (index, toleration) in tolerations.iter().enumerate() {
        let same = |other: &Value| {
            KEY.iter()
                .all(|field| other.text(field) == toleration.text(field))
        };
        if tolerations[..index].iter().any(same) {
            errors.push(Error::duplicate(&at.index(index), printed(toleration)));
        }
    }
}

fn validate(toleration: &Value, at: &Path<'_>, errors: &mut Errors) {
    let [key, operator, value, effect] = KEY.map(|field| toleration.text(field));
    let place = at.child("operator");
    if !key.is_empty() {
        faults::tell(key, name::label_key(key), &at.child("key"), errors);
    } else if operator != "Exists" {
        errors.push(Error::invalid(
            &place,
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ));
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        errors.push(Error::invalid(
            &at.child("effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ));
    }
    match operator {
        "" | "Equal" => {
            let found = name::label_value(value);
            if !found.is_empty() {
                errors.push(Error::invalid(&place, value, found.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => errors.push(Error::invalid(
            &place,
            value,
            "value must be empty when `operator` is 'Exists'",
        )),
        "Lt" | "Gt" => errors.push(Error::not_supported(&place, operator, OPERATORS)),
        _ => errors.push(Error::not_supported(&place, operator, &OPERATORS[..2])),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(Error::not_supported(&at.child("effect"), effect, EFFECTS));
    }
}

/// A toleration as errors show it: under the names of the program, not of the API.
fn printed(toleration: &Value) -> Shown {
    let [key, operator, value, effect] = KEY.map(|field| go::json_string(toleration.text(field)));
    let seconds = toleration.at("tolerationSeconds");
    Shown::Printed(format!(
        "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\"TolerationSeconds\":{seconds}}}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(tolerations: &[Value]) -> Vec<String> {
        let mut errors = Errors::new();
        validate_all(tolerations, &Path::new("t"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_toleration_stands_there_once() {
        let one = json!({"key": "a", "effect": "NoExecute", "tolerationSeconds": 1});
        let other = json!({"key": "a", "effect": "NoExecute"});
        assert_eq!(
            errors(&[one, other]),
            [
                "t[1]: Duplicate value: {\"Key\":\"a\",\"Operator\":\"\",\"Value\":\"\",\"Effect\":\"NoExecute\",\
              \"TolerationSeconds\":null}"
            ]
        );
    }

    #[test]
    fn operators_ask_for_keys_and_values() {
        assert_eq!(
            errors(&[
                json!({"operator": "Exists", "value": "v"}),
                json!({"operator": "Lt"})
            ]),
            [
                "t[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                "t[1].operator: Invalid value: \"Lt\": operator must be Exists when `key` is empty, which means \"match \
                 all values and all keys\"",
                "t[1].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            ]
        );
    }
}
