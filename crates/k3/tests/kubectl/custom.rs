//! kubectl works with a kind that a user defines.

use std::io::{BufRead, Read};

use crate::cluster::TestCluster;

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Spec, type: string, description: When it runs, jsonPath: .spec.cronSpec}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [cronSpec]
            properties:
              cronSpec: {type: string, description: When it runs., pattern: '^\S+ \S+$'}
              replicas: {type: integer, default: 1, minimum: 0}
          status:
            type: object
            properties:
              replicas: {type: integer}
";

const OBJECT: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: mine}
spec: {cronSpec: "* *"}
"#;

impl TestCluster {
    fn define(&self) {
        let file = self.file("definition.yaml", DEFINITION);
        self.kubectl(&format!("create -f {}", file.display()));
        self.kubectl("wait crd/crontabs.stable.example.com --for=condition=Established --timeout=60s");
    }
}

#[test]
fn a_custom_resource_works_like_a_built_in_one() {
    let cluster = TestCluster::start();
    cluster.define();
    let resources = cluster.kubectl("api-resources --api-group=stable.example.com");
    assert!(resources.contains("crontabs   ct"), "{resources}");
    let explained = cluster.kubectl("explain crontab.spec");
    assert!(explained.contains("What is wanted."), "{explained}");
    assert!(explained.contains("cronSpec\t<string> -required-"), "{explained}");

    let file = cluster.file("object.yaml", OBJECT);
    cluster.kubectl(&format!("apply -f {}", file.display()));
    let table = cluster.kubectl("get ct");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines, [vec!["NAME", "SPEC"], vec!["mine", "*", "*"]]);
    // What was left out is filled in, and the scale leads there.
    assert_eq!(cluster.get("crontab mine")["spec"]["replicas"], 1);
    cluster.kubectl("scale crontab mine --replicas=3");
    let object = cluster.get("crontab mine");
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["generation"]),
        (&3.into(), &2.into())
    );

    let bad = cluster.file("bad.yaml", &OBJECT.replace("* *", "often").replace("mine", "bad"));
    let (_, error) = cluster.kubectl_error(&format!("create -f {}", bad.display()));
    let expected =
        "spec.cronSpec: Invalid value: \"often\": spec.cronSpec in body should match '^\\S+ \\S+$'";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn deleting_a_definition_deletes_its_objects_and_ends_watches() {
    let cluster = TestCluster::start();
    cluster.define();
    let file = cluster.file("object.yaml", OBJECT);
    cluster.kubectl(&format!("create -f {}", file.display()));
    let mut watch = cluster.follow("get --raw /apis/stable.example.com/v1/crontabs?watch=true");
    let mut seen = String::new();
    // The watch has started when it prints the existing objects.
    watch.lines.read_line(&mut seen).unwrap();
    cluster.kubectl("delete crd crontabs.stable.example.com");
    watch.lines.read_to_string(&mut seen).unwrap();
    assert!(
        seen.contains("\"ADDED\"") && seen.contains("\"DELETED\""),
        "{seen}"
    );
    let (_, error) = cluster.kubectl_error("get --raw /apis/stable.example.com/v1/crontabs");
    assert!(
        error.contains("the server could not find the requested resource"),
        "{error}"
    );

    // A definition that was created again has no objects.
    cluster.define();
    let list = cluster.kubectl("get crontabs -o name");
    assert_eq!(list, "");
}
