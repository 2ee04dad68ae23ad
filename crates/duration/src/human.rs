//! Ages of tables, with two or three digits.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go HumanDuration

use crate::Duration;

/// How old something is, as tables show it: `5m10s`, `3h12m`, `2d`.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.whole_seconds();
    if let Some(text) = about_now(seconds) {
        return text;
    }
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = hours / 24;
    let years = hours / 24 / 365;
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, "d", hours % 24, "h")
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}

/// Clocks differ: what is barely in the future is now, what is further is nonsense.
fn about_now(seconds: i64) -> Option<String> {
    match seconds {
        ..-1 => Some("<invalid>".to_owned()),
        -1 => Some("0s".to_owned()),
        _ => None,
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    #[test]
    fn ages_lose_detail_as_they_grow() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * MINUTE + 10, "5m10s"),
            (10 * MINUTE + 10, "10m"),
            (179 * MINUTE + 59, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 30 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + 5 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + 300 * DAY, "8y"),
        ] {
            assert_eq!(human_duration(Duration::from_seconds(seconds)), text, "{seconds}");
        }
    }
}
