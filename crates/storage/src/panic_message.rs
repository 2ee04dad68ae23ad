//! The message of a caught panic.

use std::any::Any;

/// Returns the message of a panic that `catch_unwind` or a joined task returned.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}
