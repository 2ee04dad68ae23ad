//! Why there is no cluster for a test.

use std::{error::Error, fmt};

use crate::failure::Failure;

/// Why a [`TestEnv`](crate::TestEnv) did not start. Its text describes what failed, and what to do.
#[derive(Debug)]
pub struct TestEnvError(pub(super) Failure);

// --- TestEnvError ---

impl fmt::Display for TestEnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TestEnvError {}

impl From<TestEnvError> for Failure {
    fn from(error: TestEnvError) -> Self {
        error.0
    }
}
