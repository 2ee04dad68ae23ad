//! Times and spans of time.

// upstream: vendor/github.com/google/cel-go/common/types/timestamp.go Timestamp, timeZone
// upstream: vendor/github.com/google/cel-go/common/types/duration.go Duration

use std::fmt;

use super::Implementation;
use crate::{
    calendar::{civil_time, load_location, unix_midnight, utc_offset},
    error::EvalError,
    value::{Result, Value},
};

const NANOS: i128 = 1_000_000_000;
/// The first second of the year 1, and the last of the year 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// A time, to the nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    /// Seconds east of Greenwich that it was written with; it is written so again.
    offset: i32,
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek"
        | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => part,
        _ => return None,
    })
}

fn part<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (time, zone) = match args {
        [Value::Duration(nanos)] => {
            return Ok(Value::Int(match name {
                "getHours" => nanos / 3_600_000_000_000,
                "getMinutes" => nanos / 60_000_000_000,
                "getSeconds" => nanos / 1_000_000_000,
                "getMilliseconds" => nanos / 1_000_000,
                _ => return super::no_overload(name, args),
            }));
        }
        [Value::Timestamp(time)] => (*time, 0),
        [Value::Timestamp(time), Value::String(zone)] => (*time, zone_offset(zone, time.seconds)?),
        _ => return super::no_overload(name, args),
    };
    let (year, civil) = civil_time(time.seconds + zone);
    Ok(Value::Int(match name {
        "getFullYear" => year,
        "getMonth" => i64::from(civil.month()) - 1,
        "getDayOfYear" => i64::from(civil.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(civil.day()) - 1,
        "getDate" => civil.day().into(),
        "getDayOfWeek" => civil.weekday().to_sunday_zero_offset().into(),
        "getHours" => civil.hour().into(),
        "getMinutes" => civil.minute().into(),
        "getSeconds" => civil.second().into(),
        _ => i64::from(time.nanos / 1_000_000),
    }))
}

/// How many seconds east of Greenwich a zone is at a time: a name, or hours and minutes.
fn zone_offset(zone: &str, at: i64) -> std::result::Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        // Servers run in universal time.
        let location = load_location(if zone == "Local" { "UTC" } else { zone });
        return location
            .map(|location| utc_offset(&location, at))
            .map_err(|error| EvalError::new(error.to_string()));
    };
    let number = |text: &str| {
        let wrong = || EvalError::new(format!("strconv.Atoi: parsing \"{text}\": invalid syntax"));
        text.parse::<i32>().map(i64::from).map_err(|_| wrong())
    };
    let hours = number(hours)?;
    let minutes = number(minutes)?;
    let minutes = if zone.starts_with('-') {
        hours * 60 - minutes
    } else {
        hours * 60 + minutes
    };
    Ok(minutes.clamp(-100_000_000, 100_000_000) * 60)
}

// --- Timestamp ---

impl Timestamp {
    /// A time by its seconds since 1970 and nanoseconds after.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp {
            seconds,
            nanos,
            offset: 0,
        })
    }

    pub(crate) fn seconds(self) -> i64 {
        self.seconds
    }

    pub(crate) fn is_zero(self) -> bool {
        self.seconds == FIRST && self.nanos == 0
    }

    pub(super) fn plus(self, nanos: i128) -> Option<Self> {
        let total = self.total() + nanos;
        let seconds = i64::try_from(total.div_euclid(NANOS)).ok()?;
        let nanos = u32::try_from(total.rem_euclid(NANOS)).ok()?;
        Some(Timestamp {
            offset: self.offset,
            ..Timestamp::new(seconds, nanos)?
        })
    }

    pub(super) fn since(self, other: Self) -> Option<i64> {
        i64::try_from(self.total() - other.total()).ok()
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.total() == other.total()
    }
}

impl Eq for Timestamp {}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.total().cmp(&other.total())
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, civil) = civil_time(self.seconds + i64::from(self.offset));
        write!(
            f,
            "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.month(),
            civil.day(),
            civil.hour(),
            civil.minute(),
            civil.second()
        )?;
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let minutes = self.offset.abs() / 60;
        write!(
            f,
            "{}{:02}:{:02}",
            if self.offset < 0 { '-' } else { '+' },
            minutes / 60,
            minutes % 60
        )
    }
}

// --- reading ---

/// A time by its seconds, if years have four digits then.
pub(crate) fn from_unix(seconds: i64) -> Option<Timestamp> {
    Timestamp::new(seconds, 0)
}

/// A time as RFC 3339 has it.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let midnight = parse_midnight(date)?;
    let rest = rest.strip_prefix('T')?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let clock = clock.as_bytes();
    if clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let hour = two(&clock[..2])?;
    let minute = two(&clock[3..5])?;
    let second = two(&clock[6..])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, rest) = fraction(rest)?;
    let offset = zone(rest)?;
    let seconds = midnight + hour * 3600 + minute * 60 + second - i64::from(offset);
    Some(Timestamp {
        offset,
        ..Timestamp::new(seconds, nanos)?
    })
}

/// A time as schemas have it: the letters may be small, and there may be no zone.
pub(crate) fn parse_date_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return from_unix(0);
    }
    let upper = text.to_ascii_uppercase().replacen(' ', "T", 1);
    parse_timestamp(&upper).or_else(|| parse_timestamp(&format!("{upper}Z")))
}

/// A day as schemas have it.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    from_unix(parse_midnight(text)?)
}

fn parse_midnight(date: &str) -> Option<i64> {
    let bytes = date.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = two(&bytes[..2])? * 100 + two(&bytes[2..4])?;
    let month = two(&bytes[5..7])?;
    let day = two(&bytes[8..])?;
    unix_midnight(year, month, day)
}

fn two(digits: &[u8]) -> Option<i64> {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        }
        _ => None,
    }
}

fn fraction(rest: &str) -> Option<(u32, &str)> {
    let Some(after) = rest.strip_prefix(['.', ',']) else {
        return Some((0, rest));
    };
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return None;
    }
    let digits = format!("{:0<9}", &after[..length.min(9)]);
    Some((digits.parse().ok()?, &after[length..]))
}

fn zone(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let bytes = text.as_bytes();
    if bytes.len() != 6 || bytes[3] != b':' {
        return None;
    }
    let hours = two(&bytes[1..3])?;
    let minutes = two(&bytes[4..])?;
    if hours > 24 || minutes > 60 {
        return None;
    }
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
    match bytes[0] {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// A span of time as Go writes it, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    text.parse::<k3_duration::Duration>()
        .ok()
        .map(k3_duration::Duration::nanos)
}

/// A span of time in seconds, as CEL writes it.
pub(crate) fn duration_text(nanos: i64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds are reported as a number of the same precision"
    )]
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}
