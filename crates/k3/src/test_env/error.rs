//! The error of a test cluster.

use std::{error::Error, fmt};

use crate::command_error::CommandError;

/// Why a [`TestEnv`](crate::TestEnv) did not start. Its text describes what failed, and what to do.
#[derive(Debug)]
pub struct TestEnvError(pub(super) CommandError);

// --- TestEnvError ---

impl fmt::Display for TestEnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TestEnvError {}

impl From<TestEnvError> for CommandError {
    fn from(error: TestEnvError) -> Self {
        error.0
    }
}
