//! The scheduler as a process of its own: any cluster, over HTTPS, one leader of many.

use std::process::ExitCode;

use k3_scheduler::SchedulerSetup;
use kubecontroller::App;

fn main() -> ExitCode {
    App::new("k3-scheduler")
        .about("Places pods on nodes.")
        .with(SchedulerSetup::default())
        .main()
}
