//! Runs graphs of activities.

use std::process::ExitCode;

use kubecontroller::App;
use workflow as _;

fn main() -> ExitCode {
    App::new("workflow").linked().main()
}
