//! Random names and passwords.

use std::fmt::Write;

use ring::rand::{SecureRandom, SystemRandom};

use crate::command_error::CommandError;

/// Random bytes as hexadecimal digits, which need no quoting.
pub(crate) fn digits<const BYTES: usize>() -> Result<String, CommandError> {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| CommandError::new("cannot read random bytes", "check that /dev/urandom exists"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
