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

pub(crate) fn runs_a_deployment_with_common_pod_features(environment: &RuntimeEnvironment) {
    let pod_environment = environment.pod_environment();
    pod_environment.kubectl("create serviceaccount web");
    pod_environment
        .kubectl("create configmap settings --from-literal=greeting=hello --from-literal=page=welcome");
    pod_environment.kubectl("create secret generic passwords --from-literal=first=sesame");
    pod_environment.apply(&deployment());
    pod_environment.kubectl("rollout status deployment/web --timeout=120s");

    let pods = pod_environment.kubectl("get pods -o jsonpath={.items[*].metadata.name}");
    let pods: Vec<_> = pods.split(' ').collect();
    let [first, second] = pods[..] else {
        panic!("two pods, not {pods:?}");
    };
    let address = pod_environment.kubectl(&format!("get pod {first} -o jsonpath={{.status.podIP}}"));
    assert_eq!(
        pod_environment
            .kubectl(&format!("logs {first} -c web"))
            .trim_end(),
        format!("hello sesame {address}")
    );
    assert_eq!(
        pod_environment.kubectl(&format!("logs {first} -c init")),
        "prepared\n"
    );
    let secret = pod_environment.kubectl(&format!("exec {first} -c web -- cat /passwords/first"));
    assert_eq!(secret, "sesame");
    // Pods reach each other.
    let page = pod_environment.kubectl(&format!(
        "exec {second} -c web -- wget -q -O- http://{address}:8080/"
    ));
    assert_eq!(page, "welcome");
    if let Some(names) = environment.containers(&pod_environment.name) {
        let mut expected = vec![];
        for pod in [first, second] {
            expected.extend(["POD", "web"].map(|name| format!("k8s_{}_{pod}_{name}", pod_environment.name)));
        }
        expected.sort();
        assert_eq!(names, expected);
    }
    reaches_the_api(&pod_environment, first);

    // Settings that change reach the next pods.
    pod_environment
        .kubectl("create configmap other --from-literal=greeting=bye --from-literal=page=farewell");
    pod_environment.kubectl_with(&[
        "set",
        "env",
        "deployment/web",
        "--from=configmap/other",
        "--overwrite",
    ]);
    pod_environment.kubectl("rollout status deployment/web --timeout=120s");
    pod_environment.kubectl("delete deployment web");
    pod_environment.kubectl("wait pods --all --for=delete --timeout=120s");
    environment.wait_until_containers_are(&pod_environment.name, &[]);
}

/// A pod can use its API credentials: the address is reachable, the authority verifies the server, and the server accepts the
/// token as the service account.
fn reaches_the_api(pod_environment: &super::environment::PodTestEnvironment, pod: &str) {
    let in_pod = |script: &str| {
        let args = ["exec", pod, "-c", "web", "--", "sh", "-c", script];
        pod_environment.kubectl_with(&args)
    };
    let address = in_pod("echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT");
    in_pod("nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null");
    let directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!(
        in_pod(&format!("cat {directory}/namespace")),
        pod_environment.name
    );
    let authority = pod_environment
        .cluster
        .file("ca.crt", &in_pod(&format!("cat {directory}/ca.crt")));
    let token = in_pod(&format!("cat {directory}/token"));
    let mut command = pod_environment.cluster.command();
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
    let (code, user, errors) = outcome(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(
        user,
        format!("system:serviceaccount:{}:web", pod_environment.name)
    );
}
