//! One field of a crontab: numbers, names, ranges, steps, and lists of them.

// upstream: vendor/github.com/robfig/cron/v3/parser.go getField, getRange

use super::ParseError;

/// What a field may say.
pub(super) struct FieldBounds {
    least: u64,
    most: u64,
    /// Names that stand for numbers, from the least on.
    names: &'static [&'static str],
}

/// The values that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldValues {
    bits: u64,
    /// All fit because nothing was specified. Matters for days: of two ways to say them, the restricted one
    /// counts; if both do, either is enough.
    pub(super) open: bool,
}

pub(super) const MINUTE: FieldBounds = FieldBounds::new(0, 59, &[]);
pub(super) const HOUR: FieldBounds = FieldBounds::new(0, 23, &[]);
pub(super) const DAY: FieldBounds = FieldBounds::new(1, 31, &[]);
pub(super) const MONTH: FieldBounds = FieldBounds::new(
    1,
    12,
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);
pub(super) const WEEKDAY: FieldBounds =
    FieldBounds::new(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

// --- FieldValues ---

impl FieldValues {
    /// Whether a value fits.
    pub(super) fn has(self, value: i64) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits.checked_shr(value).is_some_and(|bits| bits & 1 == 1))
    }
}

// --- FieldBounds ---

impl FieldBounds {
    const fn new(least: u64, most: u64, names: &'static [&'static str]) -> Self {
        FieldBounds { least, most, names }
    }

    /// All values.
    pub(super) fn all(&self) -> FieldValues {
        FieldValues {
            bits: bits(self.least, self.most, 1),
            open: true,
        }
    }

    /// The least value alone.
    pub(super) fn first(&self) -> FieldValues {
        FieldValues {
            bits: 1 << self.least,
            open: false,
        }
    }

    /// Reads a field: ranges with commas between them.
    // upstream: vendor/github.com/robfig/cron/v3/parser.go getField
    pub(super) fn read(&self, text: &str) -> Result<FieldValues, ParseError> {
        let mut values = FieldValues { bits: 0, open: false };
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let more = self.range(range)?;
            values.bits |= more.bits;
            values.open |= more.open;
        }
        Ok(values)
    }

    /// Reads `*`, `3`, `1-5`, each with or without `/2` after it.
    // upstream: vendor/github.com/robfig/cron/v3/parser.go getRange
    fn range(&self, text: &str) -> Result<FieldValues, ParseError> {
        let steps: Vec<_> = text.split('/').collect();
        let ends: Vec<_> = steps[0].split('-').collect();
        let mut open = matches!(ends[0], "*" | "?");
        let (start, mut end) = if open {
            (self.least, self.most)
        } else {
            let start = self.value(ends[0])?;
            match ends[..] {
                [_] => (start, start),
                [_, end] => (start, self.value(end)?),
                _ => return Err(ParseError::Hyphens(text.to_owned())),
            }
        };
        let step = match steps[..] {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                if ends.len() == 1 {
                    end = self.most;
                }
                open &= step <= 1;
                step
            }
            _ => return Err(ParseError::Slashes(text.to_owned())),
        };
        let text = || text.to_owned();
        if start < self.least {
            let least = self.least;
            return Err(ParseError::Below {
                start,
                least,
                text: text(),
            });
        }
        if end > self.most {
            let most = self.most;
            return Err(ParseError::Above {
                end,
                most,
                text: text(),
            });
        }
        if start > end {
            return Err(ParseError::Backwards {
                start,
                end,
                text: text(),
            });
        }
        if step == 0 {
            return Err(ParseError::NoStep(text()));
        }
        Ok(FieldValues {
            bits: bits(start, end, step),
            open,
        })
    }

    fn value(&self, text: &str) -> Result<u64, ParseError> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        match named {
            Some(position) => Ok(self.least + u64::try_from(position).expect("a short list")),
            None => number(text),
        }
    }
}

fn bits(start: u64, end: u64, step: u64) -> u64 {
    let mut bits = 0;
    let mut value = start;
    while value <= end {
        bits |= 1 << value;
        value = value.saturating_add(step);
    }
    bits
}

fn number(text: &str) -> Result<u64, ParseError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Number(text.to_owned()));
    }
    let number: i64 = text.parse().map_err(|_| ParseError::TooLarge(text.to_owned()))?;
    u64::try_from(number).map_err(|_| ParseError::Negative {
        number,
        text: text.to_owned(),
    })
}
