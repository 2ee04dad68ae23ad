//! How the cost of something grows with its input.

use std::{cell::RefCell, env, sync::OnceLock, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// What is quicker than this for the larger size is not looked at: the square of the size would take longer.
const FLOOR: Duration = Duration::from_millis(25);

/// What the larger size may take, however slow the build is.
const CEILING: Duration = Duration::from_secs(4);

/// How much longer four times the input may take. What grows like its square takes sixteen times as long.
const MAX_GROWTH: u32 = 8;

/// The smaller of the sizes that are compared. `K3_COST_ENTRIES` asks for others: the larger they are, the smaller
/// the steps that are found.
pub(crate) fn few() -> usize {
    static FEW: OnceLock<usize> = OnceLock::new();
    *FEW.get_or_init(|| match env::var("K3_COST_ENTRIES") {
        Ok(text) => text.parse().expect("K3_COST_ENTRIES is a number of entries"),
        Err(_) => 150,
    })
}

/// The larger of them.
pub(crate) fn many() -> usize {
    4 * few()
}

/// Collects what grows too fast.
#[derive(Default)]
pub(crate) struct Growth(RefCell<Vec<String>>);

// --- Growth ---

impl Growth {
    /// Checks that a run grows about as its input does. `prepare` makes the input of a size, which does not count.
    pub(crate) fn check<I>(&self, name: &str, prepare: impl Fn(usize) -> I, run: impl Fn(I)) {
        let mut last = (Duration::ZERO, Duration::ZERO);
        // Caches and interrupts count, too: only what is slow every time is slow.
        for _ in 0..4 {
            let long = timed(prepare(many()), &run);
            if long < FLOOR {
                return;
            }
            let short = timed(prepare(few()), &run).min(timed(prepare(few()), &run));
            if long < short * MAX_GROWTH && long < CEILING {
                return;
            }
            last = (short, long);
        }
        let (short, long) = last;
        let line = format!(
            "{name}: {} entries take {short:?}, {} take {long:?}",
            few(),
            many()
        );
        self.0.borrow_mut().push(line);
    }

    /// Fails with all that grew too fast.
    pub(crate) fn finish(self) {
        let lines = self.0.into_inner();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}

/// Checks a single run.
pub(crate) fn assert_grows_slowly<I>(name: &str, prepare: impl Fn(usize) -> I, run: impl Fn(I)) {
    let growth = Growth::default();
    growth.check(name, prepare, run);
    growth.finish();
}

fn timed<I>(input: I, run: impl Fn(I)) -> Duration {
    let start = now();
    run(input);
    now().saturating_sub(start)
}

/// The time that this thread has computed.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("time is positive");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("nanoseconds are positive");
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}
