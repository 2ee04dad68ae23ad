//! Beta node labels, kept equal to their stable names.

use k3_workloads::Node;

/// The label, and its beta name.
const LABELS: &[(&str, &str)] = &[
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Labels that are missing or differ, and their values.
// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go reconcileNodeLabels
pub(super) fn desired(node: &Node) -> Vec<(&'static str, &str)> {
    let label = |name| node.metadata.label(name);
    let pairs = LABELS.iter().filter_map(|(name, old)| Some((*old, label(name)?)));
    pairs.filter(|(old, value)| label(old) != Some(value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_stable_labels_to_beta_labels() {
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
            assert_eq!(desired(&node), expected, "{labels}");
        }
    }
}
