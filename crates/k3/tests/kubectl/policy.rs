//! Policies: expressions that judge and change what is written.

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
fn policies_judge_and_change_what_is_written_from_the_moment_they_are_bound() {
    let cluster = TestCluster::start();
    let file = cluster.file("policies.yaml", POLICIES);
    cluster.kubectl(&format!("apply -f {}", file.display()));
    let (_, said) = cluster.refused("create configmap c --from-literal=bad=1");
    assert!(
        said.contains(
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'no-bad-data' with binding 'everywhere' denied request: \
             bad data in c"
        ),
        "{said}"
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
fn policies_judge_commands_in_pods() {
    let cluster = TestCluster::start();
    let file = cluster.file("policies.yaml", NO_COMMANDS);
    cluster.kubectl(&format!("apply -f {}", file.display()));
    cluster.kubectl("run web --image=nginx");
    let (_, said) = cluster.refused("exec web -- rm -rf /");
    assert!(said.contains("denied request: no, please"), "{said}");
    let (_, said) = cluster.refused("exec web -- ls");
    assert!(said.contains("does not have a host assigned"), "{said}");
}
