//! Runs graphs of activities.

use std::process::ExitCode;

use workflow as _;
use kubecontroller::App;

fn main() -> ExitCode {
    App::new("workflow").linked().main()
}
