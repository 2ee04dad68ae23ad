//! Exits, restarts and failures of containers, and crashes of the agent.

use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};

use super::environment::{PodTestEnvironment, RuntimeEnvironment, TIMEOUT, container};

/// How often the agent is killed, and with how many pods; more by `K3_CRASH_CYCLES` and `K3_CRASH_PODS`.
const CYCLES: u32 = 2;
const PODS: u32 = 3;

pub(crate) fn restarts_containers_and_reports_failures(environment: &RuntimeEnvironment) {
    let pod_environment = environment.pod_environment();
    pod_environment.run(
        "web",
        "echo begun; trap 'exit 7' TERM; while true; do sleep 0.2; done",
    );
    let mut missing = container("main", "true");
    missing["image"] = "k3.test/nothing:1".into();
    let pod = |name: &str, policy: &str, container: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container],
        }})
    };
    pod_environment.apply(&pod("no-image", "Always", missing));
    let mut program = container("main", "");
    program["command"] = json!(["/no/such/program"]);
    pod_environment.apply(&pod("no-program", "Never", program));
    pod_environment.apply(&pod("good", "Never", container("main", "exit 0")));
    let bad = container("main", "echo the reason >/dev/termination-log; exit 3");
    pod_environment.apply(&pod("bad", "Never", bad));

    pod_environment.kubectl("wait pod/web --for=condition=Ready --timeout=120s");
    pod_environment.kubectl("exec web -- kill 1");
    pod_environment
        .kubectl("wait pod/web --for=jsonpath={.status.containerStatuses[0].restartCount}=1 --timeout=120s");
    pod_environment.kubectl("wait pod/web --for=condition=Ready --timeout=120s");
    assert_eq!(pod_environment.kubectl("logs web --previous"), "begun\n");
    let last = "{.status.containerStatuses[0].lastState.terminated.exitCode}";
    assert_eq!(
        pod_environment.kubectl(&format!("get pod web -o jsonpath={last}")),
        "7"
    );

    pod_environment.kubectl("wait pod/good --for=jsonpath={.status.phase}=Succeeded --timeout=120s");
    pod_environment.kubectl("wait pod/bad --for=jsonpath={.status.phase}=Failed --timeout=120s");
    let message = "{.status.containerStatuses[0].state.terminated.message}";
    assert_eq!(
        pod_environment.kubectl(&format!("get pod bad -o jsonpath={message}")),
        "the reason\n"
    );
    // A Podman has not begun what it could not start, so that it is tried again whatever the policy is.
    let output = match environment.name {
        "podman" => "{.status.containerStatuses[0].state.waiting.reason}=RunContainerError",
        _ => "{.status.phase}=Failed",
    };
    pod_environment.kubectl(&format!(
        "wait pod/no-program --for=jsonpath={output} --timeout=120s"
    ));
    wait_until_described_with(&pod_environment, "no-program", "/no/such/program");
    let waiting = "{.status.containerStatuses[0].state.waiting.reason}=ErrImageNeverPull";
    pod_environment.kubectl(&format!(
        "wait pod/no-image --for=jsonpath={waiting} --timeout=120s"
    ));
    wait_until_described_with(
        &pod_environment,
        "no-image",
        "Container image \"k3.test/nothing:1\" is not present with pull policy of Never",
    );
    pod_environment.kubectl("delete pods --all --timeout=120s");
    environment.wait_until_containers_are(&pod_environment.name, &[]);
}

/// Waits until `kubectl describe` contains a text.
fn wait_until_described_with(pod_environment: &PodTestEnvironment, pod: &str, what: &str) {
    let output = eventually_within(TIMEOUT, async || {
        let message = pod_environment.kubectl(&format!("describe pod {pod}"));
        message.contains(what).then_some(()).ok_or(message)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(output);
}

/// Each pod with the id of its container, how often that began again, and whether it is ready.
fn containers(pod_environment: &PodTestEnvironment) -> Vec<String> {
    let status = "{.metadata.name} {.status.containerStatuses[0].containerID} \
                  {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";
    let each = format!("{{range .items[*]}}{status}{{\"\\n\"}}{{end}}");
    let listed = pod_environment.kubectl_with(&["get", "pods", "-o", &format!("jsonpath={each}")]);
    listed.lines().map(str::to_owned).collect()
}

pub(crate) fn pods_survive_a_crash_of_the_agent(environment: &RuntimeEnvironment) {
    let number = |variable: &str, usual: u32| {
        std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
    };
    let cycles = number("K3_CRASH_CYCLES", CYCLES);
    let pods = number("K3_CRASH_PODS", PODS);
    let mut pod_environment = environment.pod_environment();
    for pod in 0..pods {
        pod_environment.run(&format!("pod-{pod}"), "sleep 10000");
    }
    pod_environment.kubectl("wait pods --all --for=condition=Ready --timeout=240s");
    let first = containers(&pod_environment);
    let running = environment.containers(&pod_environment.name).unwrap_or_default();
    for cycle in 0..cycles {
        pod_environment = pod_environment.crash(environment);
        // A pod that is made after the crash runs: by then the agent has seen to all others.
        let new = format!("after-{cycle}");
        pod_environment.run(&new, "sleep 10000");
        pod_environment.kubectl(&format!("wait pod/{new} --for=condition=Ready --timeout=120s"));
        pod_environment.kubectl(&format!("delete pod {new} --timeout=120s"));
        assert_eq!(containers(&pod_environment), first);
        environment.wait_until_containers_are(&pod_environment.name, &running);
    }
    pod_environment.kubectl("delete pods --all --timeout=240s");
    environment.wait_until_containers_are(&pod_environment.name, &[]);
}
