//! The command line.

use std::{fmt, path::PathBuf};

pub(crate) const HELP: &str = "\
Usage: k3-bench storage [FLAGS]

Measures the stores, beside the disk's own limits, and compares with what is asked of them.

  --quick             a tenth of the time and of the objects: rough figures
  --backend LIST      which stores, of memory,file,etcd,mysql; all by default
  --dir FOLDER        where the data goes, on the disk to measure; by default beside the program
  --json FILE         where the results go; bench/results/storage.json by default
  --help              this text";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Storage(StorageOptions),
    /// What the benchmark asks of itself, as a process of its own: the memory of one backend.
    Weigh(WeighOptions),
}

/// What to measure of the stores, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageOptions {
    pub(crate) effort: Effort,
    pub(crate) backends: Vec<Backend>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// A store to fill, to see how much memory that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeighOptions {
    pub(crate) backend: Backend,
    pub(crate) dir: PathBuf,
    pub(crate) objects: usize,
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    File,
    Etcd,
    Mysql,
}

/// What is wrong with the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake(String);

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, Mistake> {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        Some("storage") => parse_storage(args),
        Some("weigh") => parse_weigh(&args.collect::<Vec<_>>()),
        Some("--help" | "-h") => Ok(Command::Help),
        Some(other) => Err(Mistake(format!("there is no benchmark `{other}`"))),
        None => Err(Mistake("which benchmark?".to_owned())),
    }
}

fn parse_storage(mut args: impl Iterator<Item = String>) -> Result<Command, Mistake> {
    let mut options = StorageOptions {
        effort: Effort::Full,
        backends: Backend::ALL.to_vec(),
        dir: None,
        json: None,
    };
    while let Some(flag) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| Mistake(format!("{flag} needs a value")))
        };
        match flag.as_str() {
            "--quick" => options.effort = Effort::Quick,
            "--backend" => options.backends = parse_backends(&value()?)?,
            "--dir" => options.dir = Some(value()?.into()),
            "--json" => options.json = Some(value()?.into()),
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(Mistake(format!("there is no flag `{other}`"))),
        }
    }
    Ok(Command::Storage(options))
}

fn parse_backends(list: &str) -> Result<Vec<Backend>, Mistake> {
    list.split(',').map(Backend::parse).collect()
}

fn parse_weigh(args: &[String]) -> Result<Command, Mistake> {
    let [backend, dir, objects] = args else {
        return Err(Mistake("weigh takes a backend, a folder and a number".to_owned()));
    };
    Ok(Command::Weigh(WeighOptions {
        backend: Backend::parse(backend)?,
        dir: dir.into(),
        objects: objects
            .parse()
            .map_err(|error| Mistake(format!("{objects}: {error}")))?,
    }))
}

// --- Backend ---

impl Backend {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::File, Self::Etcd, Self::Mysql];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Mysql => "mysql",
        }
    }

    fn parse(name: &str) -> Result<Self, Mistake> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| Mistake(format!("there is no backend `{name}`")))
    }
}

// --- Effort ---

impl Effort {
    /// A time or a number, or a tenth of it.
    pub(crate) fn of<T: std::ops::Div<u32, Output = T>>(self, full: T) -> T {
        match self {
            Self::Quick => full / 10,
            Self::Full => full,
        }
    }
}

// --- Mistake ---

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_say_what_to_measure() {
        let options = StorageOptions {
            effort: Effort::Quick,
            backends: vec![Backend::File, Backend::Memory],
            dir: Some("there".into()),
            json: Some("out.json".into()),
        };
        let line = "storage --quick --backend file,memory --dir there --json out.json";
        assert_eq!(parsed(line), Ok(Command::Storage(options)));
        assert_eq!(parsed("storage --quick --help"), Ok(Command::Help));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, named) in [
            ("", "which benchmark"),
            ("network", "`network`"),
            ("storage --fast", "`--fast`"),
            ("storage --dir", "--dir needs a value"),
            ("storage --backend file,tape", "`tape`"),
        ] {
            let mistake = parsed(line).expect_err(line);
            assert!(mistake.0.contains(named), "{mistake}");
        }
    }
}
