//! Real containers: what users of a cluster do with pods, on every runtime that this machine can run.

mod environment;
mod restarts;
mod streams;
mod workload;

/// All claims, as tests of one runtime.
macro_rules! suite {
    ($environment:ident: $($module:ident::$test:ident,)*) => {
        mod $environment {
            $(
                #[test]
                fn $test() {
                    super::$module::$test(&super::environment::$environment());
                }
            )*
        }
    };
    ($($environment:ident),*) => {
        $(suite!($environment:
            workload::runs_a_deployment_with_common_pod_features,
            streams::streams_work_with_containers,
            restarts::restarts_containers_and_reports_failures,
            restarts::pods_survive_a_crash_of_the_agent,
        );)*
    };
}

suite!(docker, podman, containerd);
