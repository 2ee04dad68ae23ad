//! Looks after things.

mod api;
mod reconciler;

use std::process::ExitCode;

use kubecontroller::App;

fn main() -> ExitCode {
    App::new("thing-operator").linked().main()
}
