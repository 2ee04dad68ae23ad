//! The command line: what can be asked for, and the texts that teach it.

use std::fmt;

use crate::{
    bench::{BenchOptions, Benchmark},
    golden::GoldenOptions,
    test::TestOptions,
    tidy::TidyOptions,
};

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A text to print.
    Help(&'static str),
    Check,
    Tidy(TidyOptions),
    Test(TestOptions),
    Golden(GoldenOptions),
    EndToEnd,
    Bench(BenchOptions),
}

/// A usage error: what is wrong with the command line, and the help that applies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    problem: String,
    help: &'static str,
}

const HELP: &str = "\
The chores of k3. Usage: cargo xtask <command>

  check           format, lints, documentation, tidiness, dependencies; changes no sources
  tidy            only the tidiness rules: vocabulary, references to upstream, one statement per line
  test            check, then every test; as root it installs the services that are missing
  golden          plays recorded upstream requests against k3
  e2e             runs k3 with real container runtimes
  bench storage   measures the stores and prints a table
  bench api       measures the API server beside upstream's results
  bench command   measures commands as users wait for them
  bench hostile   measures what ordinary clients feel of an attack
  bench informer  measures informers beside kube's reflector
  bench node      measures the node agent on real container runtimes
  bench queue     measures work queues and an empty controller
  bench scheduler measures the scheduler alone
  bench workload  measures controllers and scheduler with Deployments
  bench scale     measures 5,000 simulated nodes with 150,000 pods

`cargo xtask <command> --help` describes it.
";

const CHECK_HELP: &str = "\
Usage: cargo xtask check

Runs, in this order, all of:
  cargo fmt --all --check
  cargo clippy --workspace --all-targets -- -D warnings
  cargo doc --no-deps --workspace, with warnings denied
  the tidiness rules of CONTRIBUTING.md, and that every dependency is used
  cargo-deny with the rules of deny.toml; it is built if it is missing
";

const TIDY_HELP: &str = "\
Usage: cargo xtask tidy [PATH...]

Prints what breaks the tidiness rules of CONTRIBUTING.md, a line each: retired words (docs/glossary.md), references to
upstream that do not exist, files that follow upstream without a reference, several statements in one `let`, files that
are too long or not ASCII. It is part of `check`.

  PATH                    start of a path from the root, such as crates/api/; only these files are looked at
  K3_UPSTREAM_SYMBOLS     list of upstream's files and identifiers; default ../shared/k8s/upstream-symbols.txt
";

const TEST_HELP: &str = "\
Usage: cargo xtask test [--no-check] [--fuzz SECONDS] [-- ARGUMENTS]

Runs `check`, all tests, the doc tests and `golden`, and ends with a line `N passed, N failed`
(each of the four checks counts as one).

  --no-check      leaves out `check`
  --fuzz SECONDS  how long each fuzz test runs; default 30
  -- ARGUMENTS    go to `cargo nextest run` (to `cargo test` where nextest is not installed), and only
                  the tests they select are run:
                  cargo xtask test --no-check -- -p k3-storage watch

The tests need services. Those that are offered are used:
  K3_TEST_ETCD    endpoint of an etcd, as http://127.0.0.1:2379
  K3_TEST_MYSQL   a MySQL or MariaDB server, as mysql://user:password@127.0.0.1:3306;
                  the user may create databases
The others are started for the run, on free ports under a temporary directory. A program that is missing is
installed from Debian's packages when run as root; otherwise it is named, and the run fails.
";

const GOLDEN_HELP: &str = "\
Usage: cargo xtask golden [FILTER] [--show N]

Builds k3, starts it as the recorded server was set up, plays recorded upstream requests against it, and
prints how many answers were the same, by category. Fails when fewer are than the project asks of itself.

  FILTER                  a pattern over category/name, such as 'apply/*'; only these are played
  --show N                prints the first N differences of each case that failed; default 0

  K3_GOLDEN               directory of the recordings; default ../shared/golden
  K3_REQUIRE_GOLDEN=1     absent recordings are a failure; otherwise they are left out
";

const E2E_HELP: &str = "\
Usage: cargo xtask e2e

Runs k3 on real Docker, Podman and containerd, driven by kubectl: a part of what `cargo xtask test` runs.
Missing services are installed (as root, on Debian), started on free ports, and ended.
";

const BENCH_HELP: &str = "\
Usage: cargo xtask bench storage|api|command|hostile|informer|node|queue|scheduler|workload|scale [FLAGS]

Builds k3 and the benchmarks with the profile `dist`, as packages are built, and measures.

  storage     the stores; installs missing services as `test` does
  api         k3 under load, each operation beside upstream's result; builds k3 too, unless
              one is given with `--binary FILE`
  command     test-env, get of 5,000 pods, migrate of 50,000 objects, and the size of the program; installs
              missing services as `test` does; takes `--binary FILE` too
  hostile     k3 under attack by costly requests and by many clients, and what ordinary clients feel of it; fails
              if a limit is not met; takes `--binary FILE` too
  informer    informers of many pods, beside kube's reflector; takes `--binary FILE` too
  node        pods on real Docker and containerd, beside what those need by themselves; installs missing
              services as `test` does; takes `--binary FILE` too
  queue       work queues, and a controller that does nothing
  scheduler   the scheduler alone, on 5,000 nodes
  workload    Deployments that become pods on nodes, are updated and deleted, and namespaces that are
              deleted, and what controllers and scheduler weigh; takes `--binary FILE` too
  scale       5,000 simulated nodes with 150,000 pods, in 24 GiB of memory; takes `--binary FILE` too

Flags go to the benchmark; `cargo xtask bench api --help` lists them, and `--quick` gives rough results
within a minute or two.
";

/// Reads the arguments that follow `cargo xtask`.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, Usage> {
    let mut args = args.into_iter();
    let Some(name) = args.next() else {
        return Err(Usage::new("no command given", HELP));
    };
    let rest: Vec<String> = args.collect();
    match name.as_str() {
        "help" | "--help" | "-h" => Ok(Command::Help(HELP)),
        "check" => plain(&rest, Command::Check, CHECK_HELP),
        "tidy" => parse_tidy(rest),
        "test" => parse_test(rest),
        "golden" => parse_golden(rest),
        "e2e" => plain(&rest, Command::EndToEnd, E2E_HELP),
        "bench" => parse_bench(rest),
        other => Err(Usage::new(format!("there is no command `{other}`"), HELP)),
    }
}

/// A command without arguments of its own.
fn plain(rest: &[String], command: Command, help: &'static str) -> Result<Command, Usage> {
    match rest.first() {
        None => Ok(command),
        Some(argument) if is_help(argument) => Ok(Command::Help(help)),
        Some(argument) => Err(Usage::new(format!("unexpected argument `{argument}`"), help)),
    }
}

fn parse_tidy(paths: Vec<String>) -> Result<Command, Usage> {
    if paths.iter().any(|path| is_help(path)) {
        return Ok(Command::Help(TIDY_HELP));
    }
    match paths.iter().find(|path| path.starts_with('-')) {
        Some(flag) => Err(Usage::new(format!("unexpected argument `{flag}`"), TIDY_HELP)),
        None => Ok(Command::Tidy(TidyOptions { paths })),
    }
}

fn parse_test(rest: Vec<String>) -> Result<Command, Usage> {
    let mut options = TestOptions::default();
    let mut rest = rest.into_iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--no-check" => options.skip_check = true,
            "--fuzz" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                options.fuzz_seconds =
                    number.ok_or_else(|| Usage::new("`--fuzz` needs a number", TEST_HELP))?;
            }
            "--" => options.selection = rest.by_ref().collect(),
            argument if is_help(argument) => return Ok(Command::Help(TEST_HELP)),
            argument => {
                let problem = format!("unexpected argument `{argument}`; put a filter after `--`");
                return Err(Usage::new(problem, TEST_HELP));
            }
        }
    }
    Ok(Command::Test(options))
}

fn parse_golden(rest: Vec<String>) -> Result<Command, Usage> {
    let mut options = GoldenOptions::default();
    let mut rest = rest.into_iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            argument if is_help(argument) => return Ok(Command::Help(GOLDEN_HELP)),
            "--show" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                options.show = number.ok_or_else(|| Usage::new("`--show` needs a number", GOLDEN_HELP))?;
            }
            filter if options.filter.is_empty() && !filter.starts_with('-') => {
                filter.clone_into(&mut options.filter);
            }
            argument => {
                return Err(Usage::new(
                    format!("unexpected argument `{argument}`"),
                    GOLDEN_HELP,
                ));
            }
        }
    }
    Ok(Command::Golden(options))
}

fn parse_bench(rest: Vec<String>) -> Result<Command, Usage> {
    let mut rest = rest.into_iter();
    let benchmark = match rest.next().as_deref() {
        Some("api") => Benchmark::Api,
        Some("command") => Benchmark::Command,
        Some("hostile") => Benchmark::Hostile,
        Some("informer") => Benchmark::Informer,
        Some("node") => Benchmark::Node,
        Some("queue") => Benchmark::Queue,
        Some("scale") => Benchmark::Scale,
        Some("scheduler") => Benchmark::Scheduler,
        Some("workload") => Benchmark::Workload,
        Some("storage") => Benchmark::Storage,
        Some(argument) if is_help(argument) => return Ok(Command::Help(BENCH_HELP)),
        Some(other) => return Err(Usage::new(format!("there is no benchmark `{other}`"), BENCH_HELP)),
        None => return Err(Usage::new("which benchmark?", BENCH_HELP)),
    };
    Ok(Command::Bench(BenchOptions {
        benchmark,
        flags: rest.collect(),
    }))
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h")
}

// --- Usage ---

impl Usage {
    fn new(problem: impl Into<String>, help: &'static str) -> Self {
        Self {
            problem: problem.into(),
            help,
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xtask: {}\n\n{}", self.problem, self.help.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Usage> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_command_of_the_help_is_understood() {
        let commands = HELP.lines().filter_map(|line| line.strip_prefix("  "));
        for line in commands {
            let name = line.split("  ").next().unwrap();
            assert!(parsed(name).is_ok(), "{name}");
            let with_help = format!("{} --help", name.split(' ').next().unwrap());
            assert!(matches!(parsed(&with_help), Ok(Command::Help(_))), "{with_help}");
        }
    }

    #[test]
    fn passes_a_filter_to_the_test_runner_unchanged() {
        let expected = TestOptions {
            skip_check: true,
            fuzz_seconds: 600,
            selection: vec!["-p".into(), "x".into(), "--help".into()],
        };
        assert_eq!(
            parsed("test --no-check --fuzz 600 -- -p x --help"),
            Ok(Command::Test(expected))
        );
    }

    #[test]
    fn passes_flags_to_the_benchmark_unchanged() {
        let expected = BenchOptions {
            benchmark: Benchmark::Storage,
            flags: vec!["--quick".into(), "--help".into()],
        };
        assert_eq!(
            parsed("bench storage --quick --help"),
            Ok(Command::Bench(expected))
        );
    }

    #[test]
    fn a_play_can_be_narrowed_and_shown() {
        let expected = GoldenOptions {
            filter: "apply/*".into(),
            show: 3,
            with_tests: false,
        };
        assert_eq!(parsed("golden apply/* --show 3"), Ok(Command::Golden(expected)));
    }

    #[test]
    fn a_usage_error_names_the_problem_and_prints_help() {
        for (line, word) in [
            ("", "no command"),
            ("tset", "`tset`"),
            ("check --fast", "`--fast`"),
            ("test watch", "after `--`"),
            ("test --fuzz long", "needs a number"),
            ("golden --show", "needs a number"),
            ("golden apply/* patch/*", "`patch/*`"),
            ("bench", "which"),
            ("bench network", "`network`"),
        ] {
            let message = parsed(line).unwrap_err().to_string();
            assert!(message.contains(word), "{line}: {message}");
            assert!(message.contains("Usage: cargo xtask"), "{line}: {message}");
        }
    }
}
