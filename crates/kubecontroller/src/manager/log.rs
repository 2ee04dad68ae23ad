//! The log of a program, whose level can be changed at run time.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, OnceLock},
};

use k3_config::ValueError;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::Targets,
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer, writer::BoxMakeWriter},
    layer::SubscriberExt,
    registry::{LookupSpan, Registry},
    reload,
};

use super::config::{LogConfig, LogFormat, parse_level};
use crate::{Clock, panic_message};

/// Controls the level of the installed log.
struct LogLevelControl {
    level: Level,
    handle: reload::Handle<Targets, Registry>,
}

static LEVEL_CONTROL: OnceLock<Mutex<LogLevelControl>> = OnceLock::new();

/// Libraries that log every packet at debug level; only the level trace enables that.
const NOISY_LIBRARIES: [&str; 6] = ["h2", "hyper", "hyper_util", "kube_client", "rustls", "tower"];

/// Installs the log of the process. Has no effect if a log is installed already.
pub(super) fn install(config: &LogConfig) -> Result<(), io::Error> {
    let writer = match config.output.as_str() {
        "stderr" => BoxMakeWriter::new(io::stderr),
        "stdout" => BoxMakeWriter::new(io::stdout),
        path => BoxMakeWriter::new(Arc::new(open(Path::new(path))?)),
    };
    let (filter, handle) = reload::Layer::new(targets(config.level));
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(lines(config, writer));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let level = config.level;
        let _ = LEVEL_CONTROL.set(Mutex::new(LogLevelControl { level, handle }));
    }
    Ok(())
}

/// Opens a log file. A new one can be read by its owner only, whatever the umask: a log names objects and users.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// A layer that writes lines.
fn lines<W, S>(config: &LogConfig, writer: W) -> impl tracing_subscriber::Layer<S>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let format = LogFormatter {
        format: config.format,
        name: config.name.clone(),
        caller: config.caller,
        clock: Clock::system(),
    };
    tracing_subscriber::fmt::layer()
        .event_format(format)
        .with_writer(writer)
}

fn targets(level: Level) -> Targets {
    let noisy = if level == Level::TRACE {
        level
    } else {
        level.min(Level::INFO)
    };
    Targets::new()
        .with_default(level)
        .with_targets(NOISY_LIBRARIES.map(|target| (target, noisy)))
}

/// The current level.
pub(super) fn level() -> String {
    let level = LEVEL_CONTROL.get().map(|control| control.lock().level);
    level.map_or_else(|| "unknown".to_owned(), |level| level.to_string().to_lowercase())
}

/// Why the level of the log was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetLevelError {
    #[error(transparent)]
    Invalid(#[from] ValueError),
    #[error("the log level cannot be changed: the log was not installed by this program")]
    NotInstalled,
    #[error(transparent)]
    Reload(#[from] reload::Error),
}

/// Changes the level and returns the new one.
pub(super) fn set_level(text: &str) -> Result<String, SetLevelError> {
    let new_level = parse_level(text)?;
    let Some(control) = LEVEL_CONTROL.get() else {
        return Err(SetLevelError::NotInstalled);
    };
    let mut control = control.lock();
    control.handle.reload(targets(new_level))?;
    control.level = new_level;
    Ok(new_level.to_string().to_lowercase())
}

/// Formats log lines.
struct LogFormatter {
    format: LogFormat,
    name: Option<String>,
    caller: bool,
    clock: Clock,
}

impl<S, N> FormatEvent<S, N> for LogFormatter
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let now = format!("{:.6}", self.clock.now());
        let caller = metadata.file().zip(metadata.line()).filter(|_| self.caller);
        let caller = caller.map(|(file, number)| format!("{file}:{number}"));
        if self.format == LogFormat::Json {
            let level = metadata.level().to_string().to_lowercase();
            let named = [
                ("logger", self.name.clone()),
                ("caller", caller),
                ("message", fields.message),
            ];
            let named = named
                .into_iter()
                .filter_map(|(key, text)| Some((key.to_owned(), Value::String(text?))));
            // Written by hand instead of as a map, because time and level must come first.
            write!(line, "{{\"time\":\"{now}\",\"level\":\"{level}\"")?;
            for (key, value) in named.chain(fields.others) {
                write!(line, ",{}:{value}", Value::String(key))?;
            }
            return writeln!(line, "}}");
        }
        write!(line, "{now} {:>5} ", metadata.level())?;
        for prefix in [&self.name, &caller, &fields.message].into_iter().flatten() {
            write!(line, "{prefix} ")?;
        }
        for (key, value) in fields.others {
            write!(line, "{key}={value} ")?;
        }
        writeln!(line)
    }
}

/// The message and the fields of a log event.
#[derive(Default)]
struct EventFields {
    message: Option<String>,
    others: Vec<(String, Value)>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = Some(text),
            (name, value) => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

/// Logs panics instead of printing them to stderr, with a backtrace if the configuration asks for it.
pub(super) fn log_panics(config: &LogConfig) {
    let with_stack = config.stacktrace;
    std::panic::set_hook(Box::new(move |panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic_message(panic.payload());
        if with_stack {
            let stack = std::backtrace::Backtrace::force_capture();
            tracing::error!(location, message, %stack, "panic");
        } else {
            tracing::error!(location, message, "panic");
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn log_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = open(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
