//! Coloured log lines for terminals.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// Formats the level in colour, then the line as usual.
pub(super) struct ColourFormat(Format<Full>);

// --- ColourFormat ---

impl ColourFormat {
    pub(super) fn new() -> Self {
        Self(Format::default().with_target(true).with_level(false))
    }
}

impl<S, N> FormatEvent<S, N> for ColourFormat
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        write!(writer, "\x1b[{}m{level:>5}\x1b[0m ", colour(level))?;
        self.0.format_event(context, writer, event)
    }
}

/// ANSI code of a level's colour.
fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}
