//! Moves the data of one Redis to another.

use std::process::ExitCode;

use redismigration as _;
use kubecontroller::App;

fn main() -> ExitCode {
    App::new("redismigration").linked().main()
}
