//! Lines in colours, for who looks at them while they come.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// The level first, in its colour, and then the line as it always is.
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

/// The code that terminals know a colour by.
fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}
