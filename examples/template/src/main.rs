//! The controller of widgets.

mod api;
mod reconciler;

use std::process::ExitCode;

use kubecontroller::App;

fn main() -> ExitCode {
    App::new("widget-operator").linked().main()
}
