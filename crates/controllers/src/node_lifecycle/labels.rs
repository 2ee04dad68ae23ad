//! Labels that nodes have twice, for who still knows the old name only.

use crate::objects::Node;

/// The label, and its old name.
const LABELS: &[(&str, &str)] = &[
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// The labels that are missing or wrong, and their values.
pub(super) fn wanted(node: &Node) -> Vec<(&'static str, &str)> {
    let label = |name| node.metadata.label(name);
    let pairs = LABELS.iter().filter_map(|(name, old)| Some((*old, label(name)?)));
    pairs.filter(|(old, value)| label(old) != Some(value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_labels_follow_the_new_ones() {
        let cases = [
            (json!({}), vec![]),
            (json!({"beta.kubernetes.io/os": "linux"}), vec![]),
            (
                json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"}),
                vec![
                    ("beta.kubernetes.io/os", "linux"),
                    ("beta.kubernetes.io/arch", "arm64"),
                ],
            ),
            (
                json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}),
                vec![],
            ),
        ];
        for (labels, expected) in cases {
            let node: Node = serde_json::from_value(json!({"metadata": {"labels": labels}})).unwrap();
            assert_eq!(wanted(&node), expected, "{labels}");
        }
    }
}
