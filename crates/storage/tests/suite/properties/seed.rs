//! Runs a property on random inputs, and reports how to run the one that failed again.

use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};

/// Names a seed, to see a failure again. Inputs are the same then; the interleaving of tasks is not.
const SEED: &str = "K3_TEST_SEED";
/// Multiplies the number of cases, for a night's run.
const FACTOR: &str = "K3_TEST_FACTOR";

/// How much to try.
pub(crate) struct TestEffort {
    /// Random inputs.
    pub(crate) cases: u32,
    /// Attempts to find a smaller input that fails too: none where failing is a matter of timing.
    pub(crate) shrinks: u32,
}

/// Runs a test that makes random choices, and reports how to run it again when it fails.
pub(crate) fn with_seed(test: impl FnOnce(u64)) {
    let seed = number(SEED).unwrap_or_else(any_number);
    let received = SeedReport(seed);
    test(seed);
    std::mem::forget(received);
}

/// Reports the seed when it is dropped, which a test that passes does not do.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        eprintln!("{SEED}={} makes the same choices again", self.0);
    }
}

/// Tries the property on values of the strategy. Must run on a runtime with several threads.
pub(crate) fn for_all<S: Strategy>(
    effort: &TestEffort,
    strategy: &S,
    property: impl AsyncFn(S::Value) -> Result<(), String>,
) {
    let seed = number(SEED).unwrap_or_else(any_number);
    let cases = effort.cases * u32::try_from(number(FACTOR).unwrap_or(1)).unwrap();
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: effort.shrinks,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    });
    let outcome = runner.run(strategy, |value| {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current()
                .block_on(property(value))
                .map_err(TestCaseError::fail)
        })
    });
    if let Err(failure) = outcome {
        panic!("{SEED}={seed} runs this again: {failure}");
    }
}

/// A random number: the keys of the standard hasher are random.
fn any_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The number in an environment variable.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
    )
}
