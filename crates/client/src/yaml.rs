//! Reads YAML.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// Parses one document.
pub(crate) fn read(text: &str) -> Result<Value, Box<Error>> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Option<Value>>(text, options)
        .map(|document| document.unwrap_or(Value::Null))
        .map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_numbers_like_go() {
        assert_eq!(
            read("a: 0644\nb: yes\nc: 'no'").unwrap(),
            json!({"a": 420, "b": true, "c": "no"})
        );
        assert!(read("a: 1\na: 2").is_err());
    }
}
