//! How many tests passed, failed and were skipped, read from what the test runners print.

use std::{fmt, iter::Sum, ops::Add};

use crate::Outcome;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

// --- Counts ---

impl Counts {
    /// One step that passed or failed.
    pub(crate) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self {
                passed: 1,
                ..Self::default()
            },
            Outcome::Failed => Self {
                failed: 1,
                ..Self::default()
            },
        }
    }

    /// Reads nextest's summary, as
    /// `Summary [ 4.9s] 10/13 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
    /// `None` when there is no summary: nothing was built or nothing was run.
    pub(crate) fn from_nextest(output: &str) -> Option<Self> {
        let output = without_colours(output);
        let summary = output
            .lines()
            .rev()
            .find(|line| line.trim_start().starts_with("Summary ["))?;
        let (_, numbers) = summary.split_once(" run: ")?;
        let mut counts = Self::default();
        // What stands in parentheses explains the number before it.
        let plain: String = numbers
            .split('(')
            .map(|part| part.split_once(')').map_or(part, |p| p.1))
            .collect();
        for part in plain.split(',') {
            let Some((number, word)) = part.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<usize>() else {
                continue;
            };
            match word.trim() {
                "passed" => counts.passed += number,
                "skipped" => counts.skipped += number,
                // "failed", "timed out", "exec failed": whatever else there is, it did not pass.
                _ => counts.failed += number,
            }
        }
        Some(counts)
    }

    /// Sums the result lines of the standard test harness, as
    /// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; ...`.
    /// `None` when there is none.
    pub(crate) fn from_libtest(output: &str) -> Option<Self> {
        let output = without_colours(output);
        let mut results = output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: "))
            .peekable();
        results.peek()?;
        let sum = results
            .flat_map(|line| line.split([';', '.']))
            .filter_map(|part| {
                let (number, word) = part.trim().split_once(' ')?;
                let number = number.parse().ok()?;
                match word {
                    "passed" => Some(Self {
                        passed: number,
                        ..Self::default()
                    }),
                    "failed" => Some(Self {
                        failed: number,
                        ..Self::default()
                    }),
                    "ignored" => Some(Self {
                        skipped: number,
                        ..Self::default()
                    }),
                    _ => None,
                }
            })
            .sum();
        Some(sum)
    }

    /// These counts, with a failure added when the run failed but no test did: a crate that does not
    /// compile prints no result.
    pub(crate) fn at_least(counts: Option<Self>, outcome: Outcome) -> Self {
        let counts = counts.unwrap_or_default();
        if outcome == Outcome::Failed && counts.failed == 0 {
            counts + Self::of(outcome)
        } else {
            counts
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// `text` without the escape sequences that colour a terminal.
fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize, failed: usize, skipped: usize) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn a_nextest_summary_is_read() {
        let output = "PASS [ 0.1s] a\n------\n     Summary [   4.921s] 13 tests run: 13 passed, 1 skipped\n";
        assert_eq!(Counts::from_nextest(output), Some(counts(13, 0, 1)));
    }

    #[test]
    fn one_single_test_is_read_too() {
        let output = "     Summary [   0.021s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(Counts::from_nextest(output), Some(counts(1, 0, 0)));
    }

    #[test]
    fn what_timed_out_or_could_not_run_has_failed() {
        let output = "Summary [ 9s] 10/13 tests run: 5 passed (1 slow, 2 flaky), 2 failed (1 due to being \
                      leaky), 1 timed out, 2 exec failed, 3 skipped";
        assert_eq!(Counts::from_nextest(output), Some(counts(5, 5, 3)));
    }

    #[test]
    fn colours_do_not_hide_a_summary() {
        let output = "\u{1b}[31;1m     Summary\u{1b}[0m [ 0.1s] \u{1b}[1m2\u{1b}[0m tests run: \
                      \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m1\u{1b}[0m \
                      \u{1b}[31;1mfailed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m \u{1b}[33;1mskipped\u{1b}[0m\n";
        assert_eq!(Counts::from_nextest(output), Some(counts(1, 1, 0)));
    }

    #[test]
    fn the_result_lines_of_the_standard_harness_are_summed() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.10s\n\
                      some 9 passed; noise\n\
                      test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Counts::from_libtest(output), Some(counts(7, 3, 1)));
    }

    #[test]
    fn a_run_that_failed_without_counts_counts_as_one_failure() {
        assert_eq!(Counts::from_nextest("error: could not compile"), None);
        assert_eq!(Counts::from_libtest("error: could not compile"), None);
        assert_eq!(Counts::at_least(None, Outcome::Failed), counts(0, 1, 0));
        assert_eq!(
            Counts::at_least(Some(counts(3, 2, 0)), Outcome::Failed),
            counts(3, 2, 0)
        );
        assert_eq!(
            Counts::at_least(Some(counts(3, 0, 0)), Outcome::Done),
            counts(3, 0, 0)
        );
    }

    #[test]
    fn skipped_tests_are_named_only_when_there_are_any() {
        assert_eq!(counts(3, 0, 0).to_string(), "3 passed, 0 failed");
        assert_eq!(counts(3, 1, 2).to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
