//! One program that links the other examples.
//!
//! Linking is all: each of them registers itself. `enabled`, `controllers` and `resource-filter.<resource>` of the
//! configuration say which of them run, and on what.

use at as _;
use dummy as _;
use kubecontroller::App;
use redismigration as _;
use workflow as _;

/// The program.
pub fn app() -> App {
    App::new("hub").linked()
}
