//! The log of a program, whose level can be changed while it runs.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

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

use super::config::{LogConfig, LogFormat, level as parse_level};
use crate::Clock;

/// The levels of the log that was installed last.
struct Dial {
    level: Level,
    handle: reload::Handle<Targets, Registry>,
}

static DIAL: OnceLock<Mutex<Dial>> = OnceLock::new();

/// Libraries that tell every packet: they are heard only where everything is.
const CHATTY: [&str; 6] = ["h2", "hyper", "hyper_util", "kube_client", "rustls", "tower"];

/// Installs a log for the whole process. Nothing happens if there is one.
pub(super) fn install(config: &LogConfig) -> Result<(), io::Error> {
    let writer = match config.output.as_str() {
        "stderr" => BoxMakeWriter::new(io::stderr),
        "stdout" => BoxMakeWriter::new(io::stdout),
        path => BoxMakeWriter::new(Mutex::new(open(Path::new(path))?)),
    };
    let (filter, handle) = reload::Layer::new(targets(config.level));
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(lines(config, writer));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let level = config.level;
        let _ = DIAL.set(Mutex::new(Dial { level, handle }));
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
    let format = Lines {
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
    let chatty = if level == Level::TRACE {
        level
    } else {
        level.min(Level::INFO)
    };
    Targets::new()
        .with_default(level)
        .with_targets(CHATTY.map(|target| (target, chatty)))
}

/// The level of the log.
pub(super) fn level() -> String {
    let level = DIAL
        .get()
        .map(|dial| dial.lock().unwrap_or_else(PoisonError::into_inner).level);
    level.map_or_else(|| "unknown".to_owned(), |level| level.to_string().to_lowercase())
}

/// Changes the level of the log. Returns the new one.
pub(super) fn set_level(text: &str) -> Result<String, String> {
    let wanted = parse_level(text)?;
    let Some(dial) = DIAL.get() else {
        return Err("the log of this program is not ours to change".to_owned());
    };
    let mut dial = dial.lock().unwrap_or_else(PoisonError::into_inner);
    dial.handle
        .reload(targets(wanted))
        .map_err(|error| error.to_string())?;
    dial.level = wanted;
    Ok(wanted.to_string().to_lowercase())
}

/// How a line looks.
struct Lines {
    format: LogFormat,
    name: Option<String>,
    caller: bool,
    clock: Clock,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let about = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = format!("{:.6}", self.clock.now());
        let caller = about.file().zip(about.line()).filter(|_| self.caller);
        let caller = caller.map(|(file, number)| format!("{file}:{number}"));
        if self.format == LogFormat::Json {
            let level = about.level().to_string().to_lowercase();
            let named = [
                ("logger", self.name.clone()),
                ("caller", caller),
                ("message", fields.message),
            ];
            let named = named
                .into_iter()
                .filter_map(|(key, text)| Some((key.to_owned(), Value::String(text?))));
            // Not a map: what says when and what comes first.
            write!(line, "{{\"time\":\"{now}\",\"level\":\"{level}\"")?;
            for (key, value) in named.chain(fields.others) {
                write!(line, ",{}:{value}", Value::String(key))?;
            }
            return writeln!(line, "}}");
        }
        write!(line, "{now} {:>5} ", about.level())?;
        for part in [&self.name, &caller, &fields.message].into_iter().flatten() {
            write!(line, "{part} ")?;
        }
        for (key, value) in fields.others {
            write!(line, "{key}={value} ")?;
        }
        writeln!(line)
    }
}

/// What an event carries.
#[derive(Default)]
struct Fields {
    message: Option<String>,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = Some(text),
            (name, value) => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
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

/// Logs panics, with their stack if that is wanted, instead of writing them past the log.
pub(super) fn hear_panics(with_stack: bool) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = super::supervisor::message(panic.payload());
        if with_stack {
            let stack = std::backtrace::Backtrace::force_capture();
            tracing::error!(place, %stack, "panic: {message}");
        } else {
            tracing::error!(place, "panic: {message}");
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
