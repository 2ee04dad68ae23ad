//! Semantic equality of trees: quantities may be written in several ways.
// upstream: staging/src/k8s.io/apimachinery/pkg/conversion/deep_equal.go Equalities

use serde_json::Value;

use super::resources::quantity_or_zero;

pub(super) fn semantic_equal(a: &Value, b: &Value) -> bool {
    a == b || is_equal(a, b, TextMeaning::Text)
}

/// What the texts of a value are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextMeaning {
    Text,
    Quantity,
}

fn is_equal(a: &Value, b: &Value, meaning: TextMeaning) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(name, value)| {
                    let below = match name.as_str() {
                        "limits" | "requests" | "overhead" | "sizeLimit" | "divisor" => TextMeaning::Quantity,
                        _ => meaning,
                    };
                    y.get(name).is_some_and(|other| is_equal(value, other, below))
                })
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_equal(x, y, TextMeaning::Text))
        }
        (Value::String(x), Value::String(y)) if meaning == TextMeaning::Quantity => {
            x == y || quantity_or_zero(a) == quantity_or_zero(b)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_quantities_are_equal_in_any_notation() {
        let asks = |memory: &str| json!({"resources": {"limits": {"memory": memory}}, "name": "1"});
        assert!(semantic_equal(&asks("1Gi"), &asks("1073741824")));
        assert!(!semantic_equal(&asks("1Gi"), &asks("1G")));
        assert!(!semantic_equal(&json!({"name": "1000m"}), &json!({"name": "1"})));
    }
}
