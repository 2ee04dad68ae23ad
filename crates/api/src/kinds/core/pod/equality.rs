//! When two trees mean the same: amounts may be written in several ways.

use serde_json::Value;

use super::resources::quantity_or_zero;

/// Whether two trees mean the same.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    a == b || alike(a, b, false)
}

fn alike(a: &Value, b: &Value, amounts: bool) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(name, value)| {
                    let below = amounts || matches!(name.as_str(), "limits" | "requests" | "overhead");
                    let below = below || matches!(name.as_str(), "sizeLimit" | "divisor");
                    y.get(name).is_some_and(|other| alike(value, other, below))
                })
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| alike(x, y, false))
        }
        (Value::String(x), Value::String(y)) if amounts => {
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
    fn amounts_are_the_same_however_they_are_written() {
        let asks = |memory: &str| json!({"resources": {"limits": {"memory": memory}}, "name": "1"});
        assert!(same(&asks("1Gi"), &asks("1073741824")));
        assert!(!same(&asks("1Gi"), &asks("1G")));
        assert!(!same(&json!({"name": "1000m"}), &json!({"name": "1"})));
    }
}
