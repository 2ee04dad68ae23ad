//! Objects are made, shown, changed and deleted.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use serde_json::Value;

use crate::{cluster::TestCluster, program::outcome};

const FILE: &str = "
# Two objects, an empty document and a comment.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {app: web}}
data: {key: '1', mode: yes please}
---
---
# nothing here
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
";

const CUSTOM: &str = "
apiVersion: example.com/v1
kind: Gadget
metadata: {name: mine}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gg]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, description: The wish., properties: {size: {type: integer}}}}}}
";

#[test]
fn applies_and_deletes_files() {
    let cluster = TestCluster::start();
    let file = cluster.file("objects.yaml", FILE);
    let apply = format!("apply -f {}", file.display());
    assert_eq!(cluster.k3(&apply), "configmap/one created\nservice/web created\n");
    assert_eq!(
        cluster.k3(&apply),
        "configmap/one unchanged\nservice/web unchanged\n"
    );
    cluster.file("objects.yaml", &FILE.replace("'1'", "'2'"));
    assert_eq!(
        cluster.k3(&format!("{apply} --dry-run=server")),
        "configmap/one configured (server dry run)\nservice/web unchanged (server dry run)\n"
    );
    assert_eq!(
        cluster.k3(&apply),
        "configmap/one configured\nservice/web unchanged\n"
    );
    assert_eq!(cluster.k3("get configmap one -o jsonpath={.data.key}"), "2");

    // Fields of another manager are kept unless --force-conflicts is given.
    cluster.kubectl_with(&[
        "patch",
        "configmap",
        "one",
        "--type=merge",
        "-p",
        r#"{"data": {"key": "3"}}"#,
    ]);
    let (code, message) = cluster.k3_error(&apply);
    assert_eq!(code, 1);
    assert!(
        message.contains("Error from server (Conflict): error when applying patch to"),
        "{message}"
    );
    assert!(message.contains(".data.key"), "{message}");
    cluster.k3(&format!("{apply} --force-conflicts"));
    assert_eq!(cluster.k3("get cm/one -o jsonpath={.data.key}"), "2");

    // Standard input, and a directory.
    let directory = cluster.path("directory");
    fs::create_dir(&directory).unwrap();
    cluster.file(
        "directory/a.json",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#,
    );
    cluster.file("directory/notes.txt", "not an object");
    assert_eq!(
        cluster.k3(&format!("apply -f {directory}")),
        "configmap/a created\n"
    );
    let mut command = cluster.k3_command_for("apply");
    let input = fs::File::open(cluster.path("directory/a.json")).unwrap();
    let (_, output, errors) = outcome(command.args(["-f", "-"]).stdin(input));
    assert_eq!(
        (output.as_str(), errors.as_str()),
        ("configmap/a unchanged\n", "")
    );

    assert_eq!(
        cluster.k3(&format!("delete -f {} --ignore-not-found", file.display())),
        "configmap \"one\" deleted\nservice \"web\" deleted\n"
    );
    assert_eq!(
        cluster.k3(&format!("delete -f {} --ignore-not-found", file.display())),
        ""
    );
    assert_eq!(cluster.k3("delete cm -l app=none --ignore-not-found"), "");
    assert_eq!(
        cluster.k3("delete configmap/a --dry-run=server"),
        "configmap \"a\" deleted (server dry run)\n"
    );
    assert_eq!(cluster.k3("delete configmap a -o name"), "configmap/a\n");
    let (code, message) = cluster.k3_error("delete cm a");
    assert_eq!(
        (code, message.as_str()),
        (1, "Error from server (NotFound): configmaps \"a\" not found\n")
    );
}

#[test]
fn applies_a_definition_and_its_objects_together() {
    let cluster = TestCluster::start();
    let file = cluster.file("custom.yaml", CUSTOM);
    // The definition is last: its objects cannot be created before it.
    let (first, second) = CUSTOM.split_once("---\n").unwrap();
    cluster.file("custom.yaml", &format!("{second}---\n{first}"));
    assert_eq!(
        cluster.k3(&format!("apply -f {}", file.display())),
        "customresourcedefinition.apiextensions.k8s.io/gadgets.example.com created\ngadget.example.com/mine created\n"
    );
    for word in [
        "gadgets",
        "gadget",
        "gg",
        "Gadget",
        "gadgets.example.com",
        "gadgets.v1.example.com",
    ] {
        assert_eq!(
            cluster.k3(&format!("get {word} -o name")),
            "gadget.example.com/mine\n"
        );
    }
    let described = cluster.k3("describe gadget/mine");
    assert!(described.contains("Spec:\n  Size:  3\n"), "{described}");
    let explained = cluster.k3("explain gadgets.spec");
    assert!(
        explained.contains("FIELD: spec <Object>") && explained.contains("The wish."),
        "{explained}"
    );
    assert_eq!(
        cluster.k3("delete gg --all"),
        "gadget.example.com \"mine\" deleted\n"
    );
}

#[test]
fn edits_an_object() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap one --from-literal=key=before");
    let editor = |name: &str, script: &str| {
        let path = cluster.file(name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = cluster.k3_command_for("edit");
        command.args(["cm/one"]).env("KUBE_EDITOR", path);
        outcome(&mut command)
    };
    let (code, output, _) = editor("change", "sed -i s/before/after/ \"$1\"");
    assert_eq!((code, output.as_str()), (Some(0), "configmap/one edited\n"));
    assert_eq!(cluster.k3("get cm one -o jsonpath={.data.key}"), "after");
    let (code, output, _) = editor("leave", "true");
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "Edit cancelled, no changes made.\n")
    );
    // The editor shows the error of the server; saving the same text again aborts.
    let (code, _, errors) = editor("spoil", "sed -i 's/^kind: .*/kind: Wrong/' \"$1\"");
    assert_eq!(code, Some(1));
    assert!(errors.contains("no valid changes were saved"), "{errors}");
    let kept = errors.trim_end().rsplit(' ').next().unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("kind: Wrong"));
    fs::remove_file(kept).unwrap();
}

#[test]
fn get_watch_prints_changes() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap one --from-literal=key=1");
    let mut child = cluster
        .k3_command_for("get")
        .args(["configmaps", "-w"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: String = lines.next().unwrap().unwrap();
        line.split_whitespace()
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(next(), ["NAME", "DATA"]);
    assert_eq!(next(), ["one", "1"]);
    cluster.kubectl("create configmap two --from-literal=a=1 --from-literal=b=2");
    assert_eq!(next(), ["two", "2"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn get_watch_prints_documents() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap one --from-literal=key=1");
    let mut child = cluster
        .k3_command_for("get")
        .args(["configmap", "one", "-w", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut documents = serde_json::Deserializer::from_reader(output).into_iter::<Value>();
    let mut next = || documents.next().unwrap().unwrap()["data"]["key"].clone();
    assert_eq!(next(), "1");
    for value in ["2", "3"] {
        // Events of other objects are not printed.
        cluster.kubectl(&format!("create configmap other-{value}"));
        let patch = format!("{{\"data\":{{\"key\":\"{value}\"}}}}");
        cluster.kubectl(&format!("patch configmap one --type=merge -p {patch}"));
        assert_eq!(next(), value);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, errors) = cluster.k3_error("get configmaps one other-2 -w -o json");
    assert_eq!(code, 2, "{errors}");
}
