//! Definitions of the size that well-known operators bring: about 100 KiB of schema, rules, two versions.
//!
//! They are built here, of parts that such definitions share: pod templates, conditions, references, selectors.

#![expect(
    clippy::needless_pass_by_value,
    reason = "schemas read better without ampersands"
)]

use serde_json::{Map, Value, json};

/// A description as long as those of real definitions.
const DESCRIPTION: &str = "More is said about this field in the documentation of the operator: how it is merged with what other \
    objects ask for, what happens when it is left out, and which versions of the operator know it.";

fn text() -> Value {
    json!({"type": "string", "description": DESCRIPTION})
}

fn whole() -> Value {
    json!({"type": "integer", "format": "int32", "description": DESCRIPTION})
}

fn flag() -> Value {
    json!({"type": "boolean", "description": DESCRIPTION})
}

fn object(fields: Value) -> Value {
    json!({"type": "object", "description": DESCRIPTION, "properties": fields})
}

fn demanding(fields: Value, required: &[&str]) -> Value {
    let mut schema = object(fields);
    schema["required"] = json!(required);
    schema
}

fn list(items: Value) -> Value {
    json!({"type": "array", "description": DESCRIPTION, "items": items, "maxItems": 64})
}

fn keyed(items: Value, key: &str) -> Value {
    json!({"type": "array", "description": DESCRIPTION, "items": items, "maxItems": 64, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key]})
}

fn labels() -> Value {
    json!({"type": "object", "description": DESCRIPTION, "additionalProperties": {"type": "string"}})
}

fn quantity() -> Value {
    json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"})
}

fn selector() -> Value {
    object(json!({
        "matchLabels": labels(),
        "matchExpressions": list(demanding(json!({"key": text(), "operator": text(), "values": list(json!({"type": "string"}))}),
            &["key", "operator"])),
    }))
}

fn secret_key() -> Value {
    let mut schema = demanding(
        json!({"name": text(), "key": text(), "optional": flag()}),
        &["key"],
    );
    schema["x-kubernetes-map-type"] = json!("atomic");
    schema
}

fn condition() -> Value {
    demanding(
        json!({
            "type": {"type": "string", "maxLength": 316, "description": DESCRIPTION,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": DESCRIPTION},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": DESCRIPTION},
            "message": {"type": "string", "maxLength": 32768, "description": DESCRIPTION},
            "lastTransitionTime": {"type": "string", "format": "date-time", "description": DESCRIPTION},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": DESCRIPTION},
        }),
        &["type", "status", "lastTransitionTime", "reason", "message"],
    )
}

fn probe() -> Value {
    object(json!({
        "exec": object(json!({"command": list(json!({"type": "string"}))})),
        "httpGet": demanding(json!({"host": text(), "path": text(), "port": {"x-kubernetes-int-or-string": true}, "scheme": text(),
            "httpHeaders": list(demanding(json!({"name": text(), "value": text()}), &["name", "value"]))}), &["port"]),
        "tcpSocket": demanding(json!({"host": text(), "port": {"x-kubernetes-int-or-string": true}}), &["port"]),
        "grpc": demanding(json!({"port": whole(), "service": {"type": "string", "default": ""}}), &["port"]),
        "failureThreshold": whole(), "initialDelaySeconds": whole(), "periodSeconds": whole(),
        "successThreshold": whole(), "timeoutSeconds": whole(), "terminationGracePeriodSeconds": whole(),
    }))
}

fn environment() -> Value {
    demanding(
        json!({"name": text(), "value": text(), "valueFrom": object(json!({
            "configMapKeyRef": secret_key(), "secretKeyRef": secret_key(),
            "fieldRef": demanding(json!({"apiVersion": text(), "fieldPath": text()}), &["fieldPath"]),
            "resourceFieldRef": demanding(json!({"containerName": text(), "divisor": quantity(), "resource": text()}), &["resource"]),
        }))}),
        &["name"],
    )
}

fn resources() -> Value {
    let amounts = json!({"type": "object", "description": DESCRIPTION, "additionalProperties": quantity()});
    object(json!({"limits": amounts, "requests": amounts,
        "claims": keyed(demanding(json!({"name": text(), "request": text()}), &["name"]), "name")}))
}

fn container() -> Value {
    demanding(
        json!({
            "name": text(), "image": text(), "imagePullPolicy": text(), "workingDir": text(), "stdin": flag(), "tty": flag(),
            "command": list(json!({"type": "string"})), "args": list(json!({"type": "string"})),
            "env": keyed(environment(), "name"),
            "envFrom": list(object(json!({"prefix": text(), "configMapRef": secret_key(), "secretRef": secret_key()}))),
            "ports": list(demanding(json!({"containerPort": whole(), "hostIP": text(), "hostPort": whole(), "name": text(),
                "protocol": {"type": "string", "default": "TCP"}}), &["containerPort"])),
            "livenessProbe": probe(), "readinessProbe": probe(), "startupProbe": probe(),
            "resources": resources(),
            "securityContext": security(),
            "volumeMounts": keyed(demanding(json!({"mountPath": text(), "name": text(), "readOnly": flag(), "subPath": text(),
                "mountPropagation": text()}), &["mountPath", "name"]), "mountPath"),
        }),
        &["name"],
    )
}

fn security() -> Value {
    object(
        json!({"allowPrivilegeEscalation": flag(), "privileged": flag(), "readOnlyRootFilesystem": flag(),
        "runAsGroup": {"type": "integer", "format": "int64"}, "runAsUser": {"type": "integer", "format": "int64"},
        "runAsNonRoot": flag(), "fsGroup": {"type": "integer", "format": "int64"},
        "capabilities": object(json!({"add": list(json!({"type": "string"})), "drop": list(json!({"type": "string"}))})),
        "seLinuxOptions": object(json!({"level": text(), "role": text(), "type": text(), "user": text()})),
        "seccompProfile": demanding(json!({"localhostProfile": text(), "type": text()}), &["type"])}),
    )
}

fn affinity() -> Value {
    let term = demanding(
        json!({"labelSelector": selector(), "namespaceSelector": selector(), "namespaces": list(json!({"type": "string"})),
            "topologyKey": text()}),
        &["topologyKey"],
    );
    let expressions = list(demanding(
        json!({"key": text(), "operator": text(), "values": list(json!({"type": "string"}))}),
        &["key", "operator"],
    ));
    let node = object(json!({"matchExpressions": expressions, "matchFields": expressions}));
    let pods = object(json!({
        "preferredDuringSchedulingIgnoredDuringExecution":
            list(demanding(json!({"podAffinityTerm": term, "weight": whole()}), &["podAffinityTerm", "weight"])),
        "requiredDuringSchedulingIgnoredDuringExecution": list(term),
    }));
    object(json!({
        "nodeAffinity": object(json!({
            "preferredDuringSchedulingIgnoredDuringExecution":
                list(demanding(json!({"preference": node, "weight": whole()}), &["preference", "weight"])),
            "requiredDuringSchedulingIgnoredDuringExecution":
                demanding(json!({"nodeSelectorTerms": list(node)}), &["nodeSelectorTerms"]),
        })),
        "podAffinity": pods, "podAntiAffinity": pods,
    }))
}

fn volume() -> Value {
    let items = list(demanding(
        json!({"key": text(), "mode": whole(), "path": text()}),
        &["key", "path"],
    ));
    demanding(
        json!({"name": text(), "emptyDir": object(json!({"medium": text(), "sizeLimit": quantity()})),
            "configMap": object(json!({"name": text(), "optional": flag(), "defaultMode": whole(), "items": items})),
            "secret": object(json!({"secretName": text(), "optional": flag(), "defaultMode": whole(), "items": items})),
            "hostPath": demanding(json!({"path": text(), "type": text()}), &["path"]),
            "nfs": demanding(json!({"path": text(), "readOnly": flag(), "server": text()}), &["path", "server"]),
            "persistentVolumeClaim": demanding(json!({"claimName": text(), "readOnly": flag()}), &["claimName"])}),
        &["name"],
    )
}

fn pod_template() -> Value {
    object(json!({
        "metadata": object(json!({"labels": labels(), "annotations": labels(), "name": text()})),
        "spec": object(json!({
            "containers": keyed(container(), "name"), "initContainers": keyed(container(), "name"),
            "volumes": keyed(volume(), "name"), "affinity": affinity(), "nodeSelector": labels(), "securityContext": security(),
            "serviceAccountName": text(), "priorityClassName": text(), "terminationGracePeriodSeconds": whole(),
            "tolerations": list(object(json!({"effect": text(), "key": text(), "operator": text(), "value": text(),
                "tolerationSeconds": {"type": "integer", "format": "int64"}}))),
            "imagePullSecrets": list(object(json!({"name": text()}))),
        })),
    }))
}

/// A definition with two versions, the second of which stores and has more fields.
fn definition(group: &str, plural: &str, kind: &str, spec: &Value, rules: &Value, extra: &Value) -> Value {
    let status = object(json!({
        "conditions": keyed(condition(), "type"), "observedGeneration": {"type": "integer", "format": "int64"},
        "replicas": whole(), "selector": text(),
    }));
    let version = |name: &str, storage: bool, spec: Value| {
        let mut version = json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "description": DESCRIPTION, "required": ["spec"],
                "properties": {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, "spec": spec, "status": status}}},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
        });
        if let Value::Object(extra) = extra {
            for (name, value) in extra {
                version[name] = value.clone();
            }
        }
        version
    };
    let mut newer = spec.clone();
    newer["properties"]["added"] = text();
    newer["x-kubernetes-validations"] = rules.clone();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [version("v1beta1", false, spec.clone()), version("v1", true, newer)]}})
}

/// In the manner of an operator that issues certificates.
pub(crate) fn certificate() -> Value {
    let keystore = demanding(
        json!({"create": flag(), "passwordSecretRef": secret_key(), "alias": text()}),
        &["create"],
    );
    let mut spec = demanding(
        json!({
            "secretName": {"type": "string", "minLength": 1, "maxLength": 253},
            "commonName": {"type": "string", "maxLength": 64},
            "dnsNames": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 253}, "x-kubernetes-list-type": "set"},
            "ipAddresses": list(json!({"type": "string", "maxLength": 64})), "uris": list(json!({"type": "string", "format": "uri"})),
            "emailAddresses": list(json!({"type": "string", "format": "email"})),
            "duration": {"type": "string", "format": "duration"}, "renewBefore": {"type": "string", "format": "duration"},
            "isCA": flag(), "revisionHistoryLimit": {"type": "integer", "format": "int32", "minimum": 1, "default": 1},
            "privateKey": object(json!({"algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"], "default": "RSA"},
                "size": {"type": "integer"}, "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]}})),
            "usages": list(json!({"type": "string", "enum": ["signing", "digital signature", "server auth", "client auth"]})),
            "issuerRef": demanding(json!({"name": text(), "kind": {"type": "string", "default": "Issuer"}, "group": text()}), &["name"]),
            "keystores": object(json!({"jks": keystore, "pkcs12": keystore})),
            "subject": object(Map::from_iter(["countries", "localities", "organizations", "provinces"].map(|name| {
                (name.to_owned(), list(json!({"type": "string"})))
            })).into()),
            "solverTemplate": pod_template(),
        }),
        &["secretName", "issuerRef"],
    );
    spec["properties"]["privateKey"]["default"] = json!({});
    let rules = json!([
        {"rule": "has(self.commonName) || (has(self.dnsNames) && self.dnsNames.size() > 0)", "message": "a certificate needs a name"},
        {"rule": "self.issuerRef.name == oldSelf.issuerRef.name", "message": "issuerRef is immutable", "fieldPath": ".issuerRef.name"},
    ]);
    definition(
        "cert.example.com",
        "certificates",
        "Certificate",
        &spec,
        &rules,
        &Value::Null,
    )
}

/// In the manner of an operator that runs a monitoring server.
pub(crate) fn prometheus() -> Value {
    let endpoint = demanding(
        json!({"namespace": text(), "name": text(), "port": {"x-kubernetes-int-or-string": true}, "scheme": text(),
            "timeout": {"type": "string", "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"},
            "tlsConfig": object(json!({"ca": object(json!({"secret": secret_key(), "configMap": secret_key()})),
                "cert": object(json!({"secret": secret_key(), "configMap": secret_key()})), "keySecret": secret_key(),
                "insecureSkipVerify": flag(), "serverName": text()}))}),
        &["name", "port"],
    );
    let remote = demanding(
        json!({"url": {"type": "string", "format": "uri"}, "name": text(), "headers": labels(), "basicAuth": object(json!({
            "username": secret_key(), "password": secret_key()})), "queueConfig": object(json!({"capacity": whole(), "maxShards": whole(),
            "minBackoff": text(), "maxBackoff": text()})), "writeRelabelConfigs": list(object(json!({"action": text(), "regex": text(),
            "sourceLabels": list(json!({"type": "string"})), "targetLabel": text(), "modulus": {"type": "integer", "format": "int64"}})))}),
        &["url"],
    );
    let spec = object(json!({
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1}, "shards": whole(), "version": text(), "image": text(),
        "retention": text(), "retentionSize": {"type": "string", "pattern": "(^0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)$"},
        "logLevel": {"type": "string", "enum": ["", "debug", "info", "warn", "error"]},
        "externalLabels": labels(), "serviceMonitorSelector": selector(), "podMonitorSelector": selector(), "ruleSelector": selector(),
        "alerting": demanding(json!({"alertmanagers": list(endpoint)}), &["alertmanagers"]),
        "remoteWrite": list(remote.clone()), "remoteRead": list(remote),
        "podMetadata": object(json!({"labels": labels(), "annotations": labels()})),
        "template": pod_template(), "resources": resources(), "storage": object(json!({"emptyDir": object(json!({"medium": text()})),
            "volumeClaimTemplate": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "spec": object(json!({"accessModes": list(json!({"type": "string"})), "resources": resources(), "storageClassName": text()}))}}})),
        "additionalArgs": list(demanding(json!({"name": {"type": "string", "minLength": 1}, "value": text()}), &["name"])),
    }));
    let rules = json!([{"rule": "!has(self.replicas) || self.replicas <= 100", "messageExpression": "'too many replicas'"}]);
    let scale = json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}});
    definition(
        "monitoring.example.com",
        "prometheuses",
        "Prometheus",
        &spec,
        &rules,
        &scale,
    )
}

/// In the manner of the routes of a gateway.
pub(crate) fn route() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 253,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "description": DESCRIPTION});
    let header = demanding(
        json!({"name": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$"},
            "value": {"type": "string", "minLength": 1, "maxLength": 4096}}),
        &["name", "value"],
    );
    let change = object(
        json!({"set": keyed(header.clone(), "name"), "add": keyed(header.clone(), "name"),
        "remove": {"type": "array", "maxItems": 16, "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}),
    );
    let backend = json!({"type": "object", "required": ["name"], "properties": {
        "group": {"type": "string", "maxLength": 253, "default": ""}, "kind": {"type": "string", "maxLength": 63, "default": "Service"},
        "name": name, "namespace": {"type": "string", "maxLength": 63},
        "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        "weight": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "default": 1}},
        "x-kubernetes-validations": [{"message": "Must have port for Service reference",
            "rule": "(size(self.group) == 0 && self.kind == 'Service') ? has(self.port) : true"}]});
    let mut filter = demanding(
        json!({"type": {"type": "string", "enum": ["RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "RequestRedirect"]},
            "requestHeaderModifier": change.clone(), "responseHeaderModifier": change,
            "requestMirror": demanding(json!({"backendRef": backend.clone()}), &["backendRef"]),
            "requestRedirect": object(json!({"hostname": name.clone(), "port": whole(), "scheme": {"type": "string", "enum": ["http", "https"]},
                "statusCode": {"type": "integer", "enum": [301, 302], "default": 302}}))}),
        &["type"],
    );
    filter["x-kubernetes-validations"] = json!([
        {"rule": "!(has(self.requestRedirect) && self.type != 'RequestRedirect')",
            "message": "filter.requestRedirect must be nil if the filter.type is not RequestRedirect"}]);
    let mut filters = list(filter);
    filters["maxItems"] = json!(16);
    let matching = object(json!({
        "path": {"type": "object", "default": {"type": "PathPrefix", "value": "/"}, "properties": {
            "type": {"type": "string", "enum": ["Exact", "PathPrefix", "RegularExpression"], "default": "PathPrefix"},
            "value": {"type": "string", "maxLength": 1024, "default": "/"}},
            "x-kubernetes-validations": [{"rule": "self.value.startsWith('/')", "message": "value must be an absolute path"}]},
        "headers": keyed(header.clone(), "name"), "queryParams": keyed(header, "name"),
        "method": {"type": "string", "enum": ["GET", "HEAD", "POST", "PUT", "DELETE"]}}));
    let mut matches = list(matching);
    matches["maxItems"] = json!(8);
    matches["default"] = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let mut backends = list(backend);
    backends["maxItems"] = json!(16);
    let mut rules = list(object(
        json!({"name": name.clone(), "matches": matches, "filters": filters, "backendRefs": backends,
        "timeouts": object(json!({"request": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"},
            "backendRequest": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}})),
        "template": pod_template()}),
    ));
    rules["maxItems"] = json!(16);
    let spec = object(json!({
        "hostnames": {"type": "array", "maxItems": 16, "items": name}, "rules": rules,
        "parentRefs": {"type": "array", "maxItems": 32, "items": demanding(json!({"name": text(), "sectionName": text(),
            "port": whole()}), &["name"])},
    }));
    definition(
        "gateway.example.com",
        "httproutes",
        "HTTPRoute",
        &spec,
        &json!([]),
        &Value::Null,
    )
}

/// In the manner of a database operator: whole pods in the spec, free forms, numbers or texts.
pub(crate) fn database() -> Value {
    let mut spec = demanding(
        json!({
            "instances": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
            "storage": demanding(json!({"size": quantity(), "storageClass": text(), "resizeInUseVolumes": {"type": "boolean", "default": true}}), &["size"]),
            "parameters": {"type": "object", "additionalProperties": {"type": "string"}},
            "bootstrap": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "maxUnavailable": {"x-kubernetes-int-or-string": true}, "template": pod_template(), "proxy": pod_template(),
            "backup": object(json!({"schedule": text(), "retention": {"type": "integer", "nullable": true},
                "target": {"type": "object", "oneOf": [{"required": ["s3"]}, {"required": ["gcs"]}],
                    "properties": {"s3": object(json!({"bucket": text(), "key": secret_key()})), "gcs": object(json!({"bucket": text()}))}}})),
        }),
        &["storage"],
    );
    spec["properties"]["storage"]["x-kubernetes-validations"] = json!([
        {"rule": "!has(oldSelf.storageClass) || has(self.storageClass)", "message": "storageClass cannot be unset"}]);
    definition(
        "db.example.com",
        "databases",
        "Database",
        &spec,
        &json!([]),
        &Value::Null,
    )
}

/// In the manner of a workflow engine: steps that are pods, with a scale and fields to select by.
pub(crate) fn workflow() -> Value {
    let step = demanding(
        json!({"name": {"type": "string", "maxLength": 63}, "depends": list(json!({"type": "string", "maxLength": 63})), "template": pod_template(),
            "when": text(), "retries": {"type": "integer", "minimum": 0, "default": 0}}),
        &["name"],
    );
    let mut steps = keyed(step, "name");
    steps["maxItems"] = json!(20);
    let spec = object(
        json!({"steps": steps, "onExit": pod_template(), "suspend": {"type": "boolean", "default": false},
        "parallelism": whole(), "entrypoint": text(), "arguments": labels()}),
    );
    let rules = json!([{"rule": "!has(self.steps) || self.steps.all(s, !has(s.depends) || s.depends.all(d, d != s.name))",
        "message": "a step cannot depend on itself"}]);
    let mut crd = definition(
        "flow.example.com",
        "workflows",
        "Workflow",
        &spec,
        &rules,
        &Value::Null,
    );
    crd["spec"]["versions"][1]["selectableFields"] =
        json!([{"jsonPath": ".spec.entrypoint"}, {"jsonPath": ".spec.suspend"}]);
    crd
}

/// All of them.
pub(crate) fn all() -> [Value; 5] {
    [certificate(), prometheus(), route(), database(), workflow()]
}
