//! Clusters for tests: `k3 test-env`, `k3::TestEnv`, and what stands in for the programs of envtest.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod assets;
mod command;
mod envtest;
mod library;
#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;
mod status_permissions;
mod suite;

/// A definition of a kind, as a file has it.
const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
";
