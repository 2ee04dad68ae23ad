//! Runs a test for a while, and looks at the clock.

#![expect(
    clippy::disallowed_methods,
    reason = "how long the code under test takes is what is asked"
)]

use std::{
    cell::Cell,
    env, fmt,
    process::abort,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

/// What any input may take, however busy the machine is.
const PAUSE: Duration = Duration::from_millis(300);
/// What each byte of an input may take besides. Far more than it does, and far less than if it took the square.
const PER_BYTE: Duration = Duration::from_micros(10);
/// An input that takes as long will never end.
const HANG: Duration = Duration::from_mins(1);

/// What is known of how large an input is.
pub(crate) trait Size {
    /// Its bytes.
    fn size(&self) -> usize;
}

/// Runs a test with inputs that a strategy makes, until the time is over. Fails with the smallest input for which the
/// test panics or takes too long.
pub(crate) fn run<S>(strategy: &S, test: impl Fn(&S::Value))
where
    S: Strategy,
    S::Value: Size + fmt::Debug,
{
    let end = Instant::now() + seconds();
    let mut seed = seed();
    let watchdog = Watchdog::start();
    let cases = Cell::new(0_u64);
    while Instant::now() < end {
        println!("K3_FUZZ_SEED={seed}");
        let mut runner = runner(seed);
        let result = runner.run(strategy, |input| {
            cases.set(cases.get() + 1);
            watchdog.begin(&input);
            if Instant::now() < end {
                timed(&input, &test);
            }
            watchdog.end();
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, input)) => panic!("{reason}\n{input:?}"),
            Err(error) => panic!("{error}"),
        }
        seed += 1;
    }
    println!("{} inputs", cases.get());
}

fn seconds() -> Duration {
    let seconds = env::var("K3_FUZZ_SECONDS")
        .ok()
        .map(|text| text.parse().expect("K3_FUZZ_SECONDS is a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(1))
}

/// The same inputs in every run, so that a change is not refused for what another one did; others if asked.
fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match env::var("K3_FUZZ_SEED").as_deref() {
        Ok("now") => now().as_secs() * 1000,
        Ok(text) => text.parse().expect("K3_FUZZ_SEED is a number, or now"),
        Err(_) => 1,
    }
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1000,
        failure_persistence: None,
        max_shrink_time: 20_000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Others use the machine too: only what is slow repeatedly is slow.
fn timed<I: Size>(input: &I, test: &impl Fn(&I)) {
    let bytes = u32::try_from(input.size()).unwrap_or(u32::MAX);
    let max = PAUSE + PER_BYTE * bytes;
    let mut min = Duration::MAX;
    for _ in 0..4 {
        let start = Instant::now();
        test(input);
        min = min.min(start.elapsed());
        if min <= max {
            return;
        }
    }
    panic!("{bytes} bytes took {min:?}");
}

/// The input that is being processed, and a thread that ends the process if that takes too long.
struct Watchdog {
    input: Arc<Mutex<Option<(Instant, String)>>>,
    /// The thread ends when it is dropped.
    _alive: mpsc::Sender<()>,
}

// --- Watchdog ---

impl Watchdog {
    fn start() -> Self {
        let input = Arc::new(Mutex::new(None::<(Instant, String)>));
        let (alive, closed) = mpsc::channel::<()>();
        let seen = Arc::clone(&input);
        thread::spawn(move || {
            while closed.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some((start, input)) = seen.lock().as_ref()
                    && start.elapsed() > HANG
                {
                    eprintln!("does not end:\n{input}");
                    abort();
                }
            }
        });
        Self { input, _alive: alive }
    }

    fn begin(&self, input: &impl fmt::Debug) {
        self.set(Some((Instant::now(), format!("{input:?}"))));
    }

    fn end(&self) {
        self.set(None);
    }

    fn set(&self, input: Option<(Instant, String)>) {
        *self.input.lock() = input;
    }
}
