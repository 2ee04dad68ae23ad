//! The message of a caught panic.

use std::any::Any;

/// Returns the message of a panic that `catch_unwind`, a joined task or a panic hook returned.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, panic_any};

    use super::*;

    fn message_of(panic: impl FnOnce() + std::panic::UnwindSafe) -> String {
        panic_message(&*catch_unwind(panic).unwrap_err()).to_owned()
    }

    #[test]
    fn returns_literal_formatted_and_other_messages() {
        let count = std::hint::black_box(3);
        assert_eq!(message_of(|| panic!("broken")), "broken");
        assert_eq!(message_of(|| panic!("{count} broken")), "3 broken");
        assert_eq!(message_of(|| panic_any(7)), "a panic without a message");
    }
}
