//! Parser of timestamps.

use k3_cel::calendar::unix_midnight;
use k3_duration::quote;

use super::Time;

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseTimeError {
    /// A part is not what should be there.
    #[error(
        "parsing time {} as {}: cannot parse {} as {}",
        quote(.text), quote(.layout), quote(.rest), quote(.part)
    )]
    Part {
        /// The whole text.
        text: String,
        /// The form it should have.
        layout: &'static str,
        /// What is left of the text.
        rest: String,
        /// The part that should begin it.
        part: &'static str,
    },
    /// A number is too small or too large.
    #[error("parsing time {}: {what} out of range", quote(.text))]
    Range {
        /// The whole text.
        text: String,
        /// The number.
        what: &'static str,
    },
    /// The text continues after the time.
    #[error("parsing time {}: extra text: {}", quote(.text), quote(.rest))]
    Extra {
        /// The whole text.
        text: String,
        /// The rest of the text.
        rest: String,
    },
}

/// What stands after the seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fraction {
    /// A point or comma and any number of digits, or nothing.
    Free,
    /// A point or comma and six digits.
    Micro,
}

/// A text, and what of it is still to be read.
struct Reader<'t> {
    text: &'t str,
    /// Always the end of `text`, and cut between characters: only ASCII is taken from it.
    rest: &'t str,
    fraction: Fraction,
}

/// Reads a time.
pub(super) fn read(text: &str, fraction: Fraction) -> Result<Time, ParseTimeError> {
    Reader {
        text,
        rest: text,
        fraction,
    }
    .time()
}

// --- Reader ---

impl Reader<'_> {
    fn time(mut self) -> Result<Time, ParseTimeError> {
        let year = self.digits(4, "2006")?;
        self.sign("-")?;
        let month = self.digits(2, "01")?;
        self.within("month", month, 1, 12)?;
        self.sign("-")?;
        let day = self.digits(2, "02")?;
        self.sign("T")?;
        let hour = self.hour()?;
        self.within("hour", hour, 0, 23)?;
        self.sign(":")?;
        let minute = self.digits(2, "04")?;
        self.within("minute", minute, 0, 59)?;
        self.sign(":")?;
        let second = self.digits(2, "05")?;
        self.within("second", second, 0, 59)?;
        let nanos = self.nanos()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(ParseTimeError::Extra {
                text: self.text.to_owned(),
                rest: self.rest.to_owned(),
            });
        }
        let midnight = unix_midnight(year, month, day).ok_or_else(|| self.out_of_range("day"))?;
        let seconds = midnight + (hour * 60 + minute) * 60 + second - offset;
        Ok(Time::from_unix(seconds, nanos))
    }

    /// A number of exactly so many digits.
    fn digits(&mut self, count: usize, part: &'static str) -> Result<i64, ParseTimeError> {
        let number = self
            .rest
            .get(..count)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = number else {
            return Err(self.not(part));
        };
        self.rest = &self.rest[count..];
        Ok(number.parse().expect("a few digits are a number"))
    }

    /// The hour may have one digit.
    fn hour(&mut self) -> Result<i64, ParseTimeError> {
        let second = self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        self.digits(if second { 2 } else { 1 }, "15")
    }

    fn sign(&mut self, sign: &'static str) -> Result<(), ParseTimeError> {
        self.rest = self.rest.strip_prefix(sign).ok_or_else(|| self.not(sign))?;
        Ok(())
    }

    fn nanos(&mut self) -> Result<u32, ParseTimeError> {
        let point = self.rest.strip_prefix(['.', ',']);
        let digits = point.map(|rest| &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()]);
        let digits = match (self.fraction, digits) {
            (Fraction::Free, None | Some("")) => return Ok(0),
            (Fraction::Free, Some(digits)) => digits,
            (Fraction::Micro, Some(digits)) if digits.len() >= 6 => &digits[..6],
            (Fraction::Micro, _) => return Err(self.not(".000000")),
        };
        self.rest = &self.rest[1 + digits.len()..];
        let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
        Ok(nanos.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }

    /// Seconds to the east.
    fn offset(&mut self) -> Result<i64, ParseTimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, ..] = bytes else {
            return Err(self.not("Z07:00"));
        };
        if ![h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit) {
            return Err(self.not("Z07:00"));
        }
        let number = |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
        let hours = number(h1, h2);
        let minutes = number(m1, m2);
        self.within("time zone offset hour", hours, 0, 24)?;
        self.within("time zone offset minute", minutes, 0, 60)?;
        let offset = (hours * 60 + minutes) * 60;
        let east = *sign == b'+';
        self.rest = &self.rest[6..];
        Ok(if east { offset } else { -offset })
    }

    fn within(&self, what: &'static str, number: i64, low: i64, high: i64) -> Result<(), ParseTimeError> {
        if (low..=high).contains(&number) {
            return Ok(());
        }
        Err(self.out_of_range(what))
    }

    fn out_of_range(&self, what: &'static str) -> ParseTimeError {
        ParseTimeError::Range {
            text: self.text.to_owned(),
            what,
        }
    }

    fn not(&self, part: &'static str) -> ParseTimeError {
        let layout = match self.fraction {
            Fraction::Free => "2006-01-02T15:04:05Z07:00",
            Fraction::Micro => "2006-01-02T15:04:05.000000Z07:00",
        };
        ParseTimeError::Part {
            text: self.text.to_owned(),
            layout,
            rest: self.rest.to_owned(),
            part,
        }
    }
}
