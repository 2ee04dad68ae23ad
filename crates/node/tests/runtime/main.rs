//! One suite of claims over every runtime, against the real programs.
//!
//! A new place is one line below, and a function in `places.rs` that says how one connects to it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod claims;
mod engine_only;
mod places;
mod world;

/// All claims, as tests in one place.
macro_rules! suite {
    ($place:ident) => {
        suite!($place:
            life::a_sandbox_and_its_container_live_and_end,
            life::the_end_of_a_container_is_told,
            life::a_program_that_is_not_there_is_told,
            life::what_needs_too_much_memory_is_killed_and_told,
            life::a_container_has_its_grace_and_no_more,
            life::stopping_and_removing_again_succeeds,
            life::a_new_connection_finds_what_was_there,
            life::two_owners_never_see_each_other,
            life::nodes_of_two_clusters_with_one_name_leave_each_other_alone,
            life::changes_wake_who_listens,
            life::an_attempt_follows_another,
            inside::a_container_runs_what_it_is_told_where_it_is_told,
            inside::limits_are_in_the_cgroups_and_can_be_changed,
            inside::a_process_is_who_it_is_told_to_be,
            inside::rights_are_what_was_asked_for,
            inside::folders_of_the_machine_are_mounted,
            network::containers_of_a_pod_share_their_network,
            network::processes_are_shared_only_when_asked_for,
            network::a_port_of_the_loopback_is_reached,
            network::a_port_of_the_machine_leads_into_the_pod,
            network::pods_reach_each_other,
            network::names_are_resolved_as_told,
            network::the_network_of_the_machine_can_be_had,
            streams::a_command_tells_its_output_and_its_code,
            streams::a_command_that_takes_too_long_is_given_up,
            streams::a_command_reads_what_it_is_sent,
            streams::a_terminal_has_a_size,
            streams::a_container_can_be_attached_to,
            streams::logs_are_read_in_parts,
            streams::a_log_is_followed_to_its_end,
            streams::the_log_of_a_terminal_is_read,
            images::images_are_there_or_not,
            images::what_cannot_be_pulled_says_why,
            images::figures_are_told,
        );
    };
    ($place:ident: $($room:ident::$claim:ident,)*) => {
        mod $place {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    let world = crate::world::World::new(&crate::places::$place()).await;
                    crate::claims::$room::$claim(&world).await;
                    world.end().await;
                }
            )*
        }
    };
}

suite!(docker);
suite!(podman);
suite!(containerd);
