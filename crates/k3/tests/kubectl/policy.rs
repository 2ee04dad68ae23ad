//! Validating and mutating admission policies.

use crate::cluster::TestCluster;

const POLICIES: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-bad-data}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  variables:
  - {name: keys, expression: "has(object.data) ? object.data.map(k, k) : []"}
  validations:
  - expression: "!('bad' in variables.keys)"
    messageExpression: "'bad data in ' + object.metadata.name"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: no-bad-data, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'made-by': request.userInfo.username}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: labels}
spec: {policyName: labels}
"#;

#[test]
fn admission_policies_validate_and_mutate_once_bound() {
    let cluster = TestCluster::start();
    let file = cluster.file("policies.yaml", POLICIES);
    cluster.kubectl(&format!("apply -f {}", file.display()));
    let (_, message) = cluster.kubectl_error("create configmap c --from-literal=bad=1");
    assert!(
        message.contains(
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'no-bad-data' with binding 'everywhere' denied request: \
             bad data in c"
        ),
        "{message}"
    );
    cluster.kubectl("create configmap c --from-literal=good=1");
    assert_eq!(
        cluster.get("configmap c")["metadata"]["labels"]["made-by"],
        "kubernetes-admin"
    );
    cluster.kubectl("delete validatingadmissionpolicybinding everywhere");
    cluster.kubectl("create configmap d --from-literal=bad=1");
}

const NO_COMMANDS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-commands}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}
  validations:
  - {expression: "object.command[0] != 'rm'", message: "no, please"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: no-commands, validationActions: [Deny]}
"#;

#[test]
fn admission_policies_validate_exec() {
    let cluster = TestCluster::start();
    let file = cluster.file("policies.yaml", NO_COMMANDS);
    cluster.kubectl(&format!("apply -f {}", file.display()));
    cluster.kubectl("run web --image=nginx");
    let (_, message) = cluster.kubectl_error("exec web -- rm -rf /");
    assert!(message.contains("denied request: no, please"), "{message}");
    let (_, message) = cluster.kubectl_error("exec web -- ls");
    assert!(message.contains("does not have a host assigned"), "{message}");
}
