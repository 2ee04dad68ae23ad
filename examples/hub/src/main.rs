//! Runs all examples that the configuration enables.

use std::process::ExitCode;

fn main() -> ExitCode {
    hub::app().main()
}
