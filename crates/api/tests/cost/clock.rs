//! How the cost of something grows with its input.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The sizes that are compared.
pub(crate) const FEW: usize = 600;
pub(crate) const MANY: usize = 4 * FEW;

/// What is quicker than this for the larger size is not looked at: the square of the size would take longer.
const FLOOR: Duration = Duration::from_millis(25);

/// What the larger size may take, however slow the build is.
const CEILING: Duration = Duration::from_secs(4);

/// How much longer four times the input may take. What grows like its square takes sixteen times as long.
const MOST_GROWTH: u32 = 8;

/// Asserts that a run grows about as its input does. `prepare` makes the input of a size, which does not count.
pub(crate) fn assert_grows_slowly<I>(name: &str, prepare: impl Fn(usize) -> I, run: impl Fn(I)) {
    let mut last = (Duration::ZERO, Duration::ZERO);
    // Caches and interrupts count, too: only what is slow every time is slow.
    for _ in 0..4 {
        let many = timed(prepare(MANY), &run);
        if many < FLOOR {
            return;
        }
        let few = timed(prepare(FEW), &run).min(timed(prepare(FEW), &run));
        if many < few * MOST_GROWTH && many < CEILING {
            return;
        }
        last = (few, many);
    }
    panic!(
        "{name}: {FEW} entries take {:?}, {MANY} entries take {:?}",
        last.0, last.1
    );
}

fn timed<I>(input: I, run: impl Fn(I)) -> Duration {
    let start = now();
    run(input);
    now() - start
}

/// The time that this thread has computed.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("time goes forward");
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).expect("nanoseconds are positive"))
}
