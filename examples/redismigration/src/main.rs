//! Migrates data from one Redis instance to another.

use std::process::ExitCode;

use kubecontroller::App;
use redismigration as _;

fn main() -> ExitCode {
    App::new("redismigration").linked().main()
}
