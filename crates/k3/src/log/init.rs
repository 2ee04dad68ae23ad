//! Initializes the log of this process; its level can be changed at any time.

use std::{io, sync::OnceLock};

use parking_lot::Mutex;
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt,
    layer::{Layered, SubscriberExt},
    reload,
    util::SubscriberInitExt,
};

use super::{
    LogFlags, LogLevel, colour::ColourFormat, flags::LogFormat, json::JsonFormat, level::LogLevelError,
    rotation::LogFile,
};
use crate::command_error::CommandError;

/// Path that shows and changes the log level, as upstream.
pub(crate) const LEVEL_PATH: &str = "/debug/flags/v";

/// A process has one log.
static LOG_HANDLE: OnceLock<LogHandle> = OnceLock::new();

struct LogHandle {
    filter: reload::Handle<Targets, Registry>,
    level: Mutex<LogLevel>,
}

/// Formats and writes filtered events.
type LogLayer = Box<dyn Layer<FilteredRegistry> + Send + Sync>;
type FilteredRegistry = Layered<reload::Layer<Targets, Registry>, Registry>;

/// Starts logging.
pub(crate) fn init(flags: &LogFlags) -> Result<(), CommandError> {
    let lines = match &flags.log_path {
        _ if flags.debug => fmt::layer()
            .with_writer(io::stderr)
            .event_format(ColourFormat::new())
            .boxed(),
        None => lines(flags.log_format, io::stderr),
        Some(path) => {
            let file = LogFile::open(path, flags.log_max_size, flags.log_max_files).map_err(|error| {
                let what = format!("cannot write the log to {}", path.display());
                CommandError::new(what, "choose a file that this user may write to with --log-path")
                    .caused_by(error)
            })?;
            lines(flags.log_format, file)
        }
    };
    install(lines, flags.level());
    Ok(())
}

/// Starts logging as text to standard error.
pub(crate) fn init_stderr(level: LogLevel) {
    install(lines(LogFormat::Text, io::stderr), level);
}

fn install(lines: LogLayer, level: LogLevel) {
    let (filter, handle) = reload::Layer::new(level.targets());
    tracing_subscriber::registry().with(filter).with(lines).init();
    let handle = LogHandle {
        filter: handle,
        level: Mutex::new(level),
    };
    // `init` fails if a subscriber is installed already.
    let _ = LOG_HANDLE.set(handle);
}

fn lines<S, W>(format: LogFormat, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'s> tracing_subscriber::registry::LookupSpan<'s>,
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.event_format(JsonFormat).boxed(),
    }
}

/// The current level.
pub(crate) fn current() -> String {
    match LOG_HANDLE.get() {
        Some(handle) => handle.level().to_string(),
        None => "off".to_owned(),
    }
}

/// Why the level of the log was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeLevelError {
    #[error("the server does not control the log of this process")]
    NotInstalled,
    #[error(transparent)]
    Invalid(#[from] LogLevelError),
    #[error("cannot change the log level: {0}")]
    Reload(#[from] tracing_subscriber::reload::Error),
}

/// Changes the level, and returns a confirmation, or why it cannot be changed.
pub(crate) fn change(text: &str) -> Result<String, ChangeLevelError> {
    let handle = LOG_HANDLE.get().ok_or(ChangeLevelError::NotInstalled)?;
    let requested = LogLevel::parse_change(text)?;
    let targets = requested.targets();
    handle.filter.reload(targets)?;
    let said = format!("successfully set the log level to {requested}");
    *handle.level() = requested;
    tracing::info!("{said}");
    Ok(said)
}

// --- LogHandle ---

impl LogHandle {
    fn level(&self) -> parking_lot::MutexGuard<'_, LogLevel> {
        self.level.lock()
    }
}
