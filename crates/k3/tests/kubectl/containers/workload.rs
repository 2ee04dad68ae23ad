//! A Deployment with all that pods use every day.

use serde_json::{Value, json};

use super::environment::{RuntimeEnvironment, container};
use crate::program::outcome;

/// A server of pages whose first one an init container puts there, with settings, secrets, probes and limits.
fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let mut init = container("init", "cp /settings/page /www/index.html && echo prepared");
    init["volumeMounts"] = json!([
        {"name": "www", "mountPath": "/www"}, {"name": "settings", "mountPath": "/settings"},
    ]);
    let mut web = container(
        "web",
        "echo \"$GREETING $PASSWORD $POD_IP\"; exec httpd -f -p 8080 -h /www",
    );
    web["ports"] = json!([{"containerPort": 8080}]);
    web["env"] = json!([
        {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "greeting"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "passwords", "key": "first"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]);
    web["readinessProbe"] = json!({"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1});
    web["livenessProbe"] = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
    web["startupProbe"] = json!({"exec": {"command": ["test", "-f", "/www/index.html"]}, "periodSeconds": 1});
    web["resources"] = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    web["volumeMounts"] = json!([
        {"name": "www", "mountPath": "/www"}, {"name": "passwords", "mountPath": "/passwords", "readOnly": true},
    ]);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "serviceAccountName": "web", "terminationGracePeriodSeconds": 1,
            "initContainers": [init], "containers": [web],
            "volumes": [
                {"name": "www", "emptyDir": {}},
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "passwords", "secret": {"secretName": "passwords"}},
            ],
        }},
    }})
}

pub(crate) fn a_deployment_runs_with_all_that_pods_use(environment: &RuntimeEnvironment) {
    let stage = environment.stage();
    stage.kubectl("create serviceaccount web");
    stage.kubectl("create configmap settings --from-literal=greeting=hello --from-literal=page=welcome");
    stage.kubectl("create secret generic passwords --from-literal=first=sesame");
    stage.apply(&deployment());
    stage.kubectl("rollout status deployment/web --timeout=120s");

    let pods = stage.kubectl("get pods -o jsonpath={.items[*].metadata.name}");
    let pods: Vec<_> = pods.split(' ').collect();
    let [first, second] = pods[..] else {
        panic!("two pods, not {pods:?}");
    };
    let address = stage.kubectl(&format!("get pod {first} -o jsonpath={{.status.podIP}}"));
    assert_eq!(
        stage.kubectl(&format!("logs {first} -c web")).trim_end(),
        format!("hello sesame {address}")
    );
    assert_eq!(stage.kubectl(&format!("logs {first} -c init")), "prepared\n");
    let secret = stage.kubectl(&format!("exec {first} -c web -- cat /passwords/first"));
    assert_eq!(secret, "sesame");
    // Pods reach each other.
    let page = stage.kubectl(&format!(
        "exec {second} -c web -- wget -q -O- http://{address}:8080/"
    ));
    assert_eq!(page, "welcome");
    if let Some(names) = environment.containers(&stage.name) {
        let mut wanted = vec![];
        for pod in [first, second] {
            wanted.extend(["POD", "web"].map(|name| format!("k8s_{}_{pod}_{name}", stage.name)));
        }
        wanted.sort();
        assert_eq!(names, wanted);
    }
    reaches_the_api(&stage, first);

    // Settings that change reach the next pods.
    stage.kubectl("create configmap other --from-literal=greeting=bye --from-literal=page=farewell");
    stage.kubectl_with(&[
        "set",
        "env",
        "deployment/web",
        "--from=configmap/other",
        "--overwrite",
    ]);
    stage.kubectl("rollout status deployment/web --timeout=120s");
    stage.kubectl("delete deployment web");
    stage.kubectl("wait pods --all --for=delete --timeout=120s");
    environment.comes_to(&stage.name, &[]);
}

/// What a pod is told of the API is true: an address that it can reach, an authority that the server is of, and a token that it
/// takes for the service account.
fn reaches_the_api(stage: &super::environment::PodTestEnvironment, pod: &str) {
    let inside = |script: &str| {
        let args = ["exec", pod, "-c", "web", "--", "sh", "-c", script];
        stage.kubectl_with(&args)
    };
    let address = inside("echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT");
    inside("nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null");
    let directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!(inside(&format!("cat {directory}/namespace")), stage.name);
    let authority = stage
        .cluster
        .file("ca.crt", &inside(&format!("cat {directory}/ca.crt")));
    let token = inside(&format!("cat {directory}/token"));
    let mut command = stage.cluster.command();
    command.env("KUBECONFIG", "/dev/null").args([
        "--server",
        &format!("https://{}", address.trim_end()),
        "--certificate-authority",
        &authority.display().to_string(),
        "--token",
        &token,
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ]);
    let (code, who, errors) = outcome(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(who, format!("system:serviceaccount:{}:web", stage.name));
}
