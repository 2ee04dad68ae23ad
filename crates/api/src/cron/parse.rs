//! Parser of schedules.

// upstream: vendor/github.com/robfig/cron/v3/parser.go ParseStandard, parseDescriptor

use std::str::FromStr;

use k3_duration::Duration;

use super::{
    Crontab, ParseError, Schedule, TimeZone,
    field::{DAY, HOUR, MINUTE, MONTH, WEEKDAY},
    load_location,
};

const EVERY: &str = "@every ";
const SECOND: i64 = 1_000_000_000;

impl FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        let (zone, text) = zone(text)?;
        if text.starts_with('@') {
            return named(text, zone);
        }
        let fields: Vec<_> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            let fields = fields.into_iter().map(str::to_owned).collect();
            return Err(ParseError::Fields(fields));
        };
        Ok(Schedule::Crontab(Crontab {
            minute: MINUTE.read(minute)?,
            hour: HOUR.read(hour)?,
            day: DAY.read(day)?,
            month: MONTH.read(month)?,
            weekday: WEEKDAY.read(weekday)?,
            zone,
        }))
    }
}

/// A zone before the schedule, and the rest: `TZ=Europe/Paris 0 4 * * *`.
fn zone(text: &str) -> Result<(Option<TimeZone>, &str), ParseError> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let (name, rest) = rest.split_once(' ').ok_or(ParseError::OnlyZone)?;
    let zone = load_location(name).map_err(|error| ParseError::Zone {
        name: name.to_owned(),
        error,
    })?;
    Ok((Some(zone), rest.trim()))
}

fn named(text: &str, zone: Option<TimeZone>) -> Result<Schedule, ParseError> {
    let mut crontab = Crontab {
        minute: MINUTE.first(),
        hour: HOUR.all(),
        day: DAY.all(),
        month: MONTH.all(),
        weekday: WEEKDAY.all(),
        zone,
    };
    match text {
        "@hourly" => return Ok(Schedule::Crontab(crontab)),
        "@daily" | "@midnight" => {}
        "@weekly" => crontab.weekday = WEEKDAY.first(),
        "@monthly" => crontab.day = DAY.first(),
        "@yearly" | "@annually" => {
            crontab.day = DAY.first();
            crontab.month = MONTH.first();
        }
        _ => return every(text),
    }
    crontab.hour = HOUR.first();
    Ok(Schedule::Crontab(crontab))
}

fn every(text: &str) -> Result<Schedule, ParseError> {
    let Some(duration) = text.strip_prefix(EVERY) else {
        return Err(ParseError::Name(text.to_owned()));
    };
    let duration: Duration = duration.parse().map_err(|error| ParseError::Duration {
        text: text.to_owned(),
        error,
    })?;
    let nanos = duration.nanos().max(SECOND);
    Ok(Schedule::Every(Duration::from_nanos(nanos - nanos % SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(text: &str) -> String {
        text.parse::<Schedule>()
            .map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn five_fields_names_and_durations_are_schedules() {
        for good in [
            "* * * * ?",
            "*/15 0-23/2 1,15 JAN-jun mon-FRI",
            "5/10 * * * *",
            "0 0 31 2 0",
            "@hourly",
            "@daily",
            "@midnight",
            "@weekly",
            "@monthly",
            "@yearly",
            "@annually",
            "@every 1h30m",
            "TZ=Europe/Paris 0 4 * * *",
            "CRON_TZ=UTC @daily",
            "TZ= 0 0 * * *",
            "+1 * * * *",
            ", * * * *",
        ] {
            assert_eq!(error_text(good), "", "{good}");
        }
    }

    #[test]
    fn rejects_invalid_schedules_with_upstream_messages() {
        for (bad, error) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("hello", "expected exactly 5 fields, found 1: [hello]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "* 5-2 * * *",
                "beginning of range (5) beyond end of range (2): 5-2",
            ),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                "-5 * * * *",
                "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax",
            ),
            ("1/-5 * * * *", "negative number (-5) not allowed: -5"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of \
                 range",
            ),
            ("@never", "unrecognized descriptor: @never"),
            (
                "@every x",
                "failed to parse duration @every x: time: invalid duration \"x\"",
            ),
            (
                "TZ=0",
                "invalid schedule format: runtime error: slice bounds out of range [:-1]",
            ),
            (
                "TZ=Nowhere * * * * *",
                "provided bad location Nowhere: unknown time zone Nowhere",
            ),
        ] {
            assert_eq!(error_text(bad), error, "{bad}");
        }
    }

    #[test]
    fn durations_are_whole_seconds() {
        let every = |text: &str| match text.parse() {
            Ok(Schedule::Every(duration)) => duration.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(every("@every 1.9s"), "1s");
        assert_eq!(every("@every 1ms"), "1s");
        assert_eq!(every("@every -1h"), "1s");
    }
}
