//! Conformance tests of the `Runtime` trait, run against every real container runtime.
//!
//! To add a runtime, add a line below and a function in `runtimes.rs`.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod conformance;
mod docker_only;
mod runtimes;
mod test_node;

/// Instantiates all conformance tests for one runtime.
macro_rules! suite {
    ($runtime:ident) => {
        suite!($runtime:
            lifecycle::sandbox_and_container_lifecycle,
            lifecycle::reports_exit_code_and_reason,
            lifecycle::reports_missing_program,
            lifecycle::reports_oom_kill,
            lifecycle::stop_respects_grace_period,
            lifecycle::stop_and_remove_are_idempotent,
            lifecycle::new_connection_lists_existing_containers,
            lifecycle::nodes_are_isolated,
            lifecycle::clusters_are_isolated,
            lifecycle::reports_container_events,
            lifecycle::keeps_containers_of_earlier_attempts,
            process::runs_command_with_environment_and_working_dir,
            process::applies_and_updates_resource_limits,
            process::runs_as_user_and_groups,
            process::applies_security_context,
            process::mounts_host_directories,
            network::containers_of_a_pod_share_the_network,
            network::shares_processes_only_on_request,
            network::port_forward_reaches_loopback,
            network::forwards_host_ports,
            network::pods_reach_each_other,
            network::configures_dns,
            network::uses_host_network,
            streams::exec_sync_returns_output_and_exit_code,
            streams::exec_sync_times_out,
            streams::exec_streams_stdin,
            streams::exec_resizes_terminal,
            streams::attaches_to_container,
            streams::log_options_select_lines,
            streams::follows_log_until_exit,
            streams::reads_log_of_terminal,
            images::lists_and_inspects_images,
            images::reports_pull_errors,
            images::reports_version_and_stats,
        );
    };
    ($runtime:ident: $($group:ident::$test:ident,)*) => {
        mod $runtime {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let node = crate::test_node::TestNode::new(&crate::runtimes::$runtime()).await;
                    crate::conformance::$group::$test(&node).await;
                    node.remove_all().await;
                }
            )*
        }
    };
}

suite!(docker);
suite!(podman);
suite!(containerd);
