//! Runs a command at a given time.

use std::process::ExitCode;

use at as _;
use kubecontroller::App;

fn main() -> ExitCode {
    App::new("at").linked().main()
}
