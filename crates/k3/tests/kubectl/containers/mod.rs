//! Real containers: what users of a cluster do with pods, on every runtime that this machine can run.

mod environment;
mod life;
mod talk;
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
            workload::a_deployment_runs_with_all_that_pods_use,
            talk::kubectl_talks_with_containers,
            life::what_ends_comes_back_and_what_fails_says_why,
            life::a_crash_of_the_agent_is_not_noticed_by_pods,
        );)*
    };
}

suite!(docker, podman, containerd);
