//! Durations such as `90s`, `1h30m`, `2d`.

use std::time::Duration;

const FORM: &str = "invalid duration; for example 90s, 30m, 1h30m or 2d";

/// Parses a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    let mut sum = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at(digits);
        let seconds = match unit.as_bytes().first() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 24 * 3600,
            _ => return Err(FORM),
        };
        let number: u64 = number.parse().map_err(|_| FORM)?;
        let part = number.checked_mul(seconds).ok_or(FORM)?;
        sum = sum.checked_add(part).ok_or(FORM)?;
        rest = &unit[1..];
    }
    if sum == 0 {
        return Err(FORM);
    }
    Ok(Duration::from_secs(sum))
}

/// Parses a duration above zero as Go writes it.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    let parsed = k3_apiserver::parse_duration(text)?;
    if parsed.is_zero() {
        return Err("must be greater than zero, such as 60s".to_owned());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_go_durations() {
        assert_eq!(parse_positive("1m30s"), Ok(Duration::from_secs(90)));
        for wrong in ["60", "soon", "0s", "-1s", ""] {
            assert!(parse_positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn adds_units_and_rejects_invalid_durations() {
        assert_eq!(parse("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("2d"), Ok(Duration::from_hours(48)));
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        for odd in [
            "",
            "1",
            "h",
            "-1h",
            "1.5h",
            "1ms",
            "0s",
            "1h 1m",
            "99999999999999999999d",
            "300000000000000000d",
        ] {
            assert_eq!(parse(odd), Err(FORM), "{odd}");
        }
    }
}
