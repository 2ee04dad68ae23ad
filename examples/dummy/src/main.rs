//! Copies data after a delay.

use std::process::ExitCode;

use dummy as _;
use kubecontroller::App;

fn main() -> ExitCode {
    App::new("dummy").linked().main()
}
