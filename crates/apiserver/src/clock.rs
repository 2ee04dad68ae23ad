//! The current time as a timestamp of API objects.

use std::time::UNIX_EPOCH;

use k3_api::time::Time;
use k3_storage::Clock;

/// What a clock shows.
pub(crate) fn time(clock: &dyn Clock) -> Time {
    let since = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(
        i64::try_from(since.as_secs()).unwrap_or_default(),
        since.subsec_nanos(),
    )
}
