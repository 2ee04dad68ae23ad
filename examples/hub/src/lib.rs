//! One program that links the other examples.
//!
//! Each example registers itself when it is linked. The settings `enabled`, `controllers` and `resource-filter.<resource>`
//! select the controllers that run, and their objects.

use at as _;
use dummy as _;
use kubecontroller::App;
use redismigration as _;
use workflow as _;

/// The program with all linked controllers.
pub fn app() -> App {
    App::new("hub").linked()
}
