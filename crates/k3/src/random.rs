//! Names and passwords that nobody can guess.

use std::fmt::Write;

use ring::rand::{SecureRandom, SystemRandom};

use crate::failure::Failure;

/// So many random bytes, as hexadecimal digits: they need no quoting anywhere.
pub(crate) fn digits<const BYTES: usize>() -> Result<String, Failure> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        Failure::new(
            "the system gives no random bytes",
            "see that /dev/urandom is there",
        )
    })?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
