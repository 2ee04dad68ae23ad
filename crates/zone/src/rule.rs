//! When clocks are changed every year, as POSIX writes it: `CET-1CEST,M3.5.0,M10.5.0/3`.

use crate::{
    calendar::{Date, days_in},
    zone::Span,
};

const DAY: i64 = 86_400;

/// When clocks are changed every year.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Seconds ahead of UTC, most of the year or always.
    standard: i64,
    summer: Option<Summer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Summer {
    offset: i64,
    /// When it begins, by the clocks until then.
    start: Change,
    /// When it ends, by the clocks until then.
    end: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    /// Seconds after midnight; may be of another day.
    second: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Day {
    /// The so-manyth of a year, from one; the leap day is never counted.
    Julian(i64),
    /// The so-manyth of a year, from zero.
    Counted(i64),
    /// The so-manyth weekday of a month; the fifth is the last.
    Weekday { month: i64, week: i64, weekday: i64 },
}

// --- Rule ---

impl Rule {
    /// Reads a rule; `None` if it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        reader.name()?;
        let standard = -reader.clock()?;
        if reader.rest.is_empty() {
            let summer = None;
            return Some(Rule { standard, summer });
        }
        reader.name()?;
        let offset = if reader.rest.starts_with(',') {
            standard + 3600
        } else {
            -reader.clock()?
        };
        let start = reader.change()?;
        let end = reader.change()?;
        let summer = Some(Summer { offset, start, end });
        reader.rest.is_empty().then_some(Rule { standard, summer })
    }

    /// What holds at a time. It cannot begin before the rule does.
    pub(crate) fn span(&self, at: i64, begin: i64) -> Span {
        let Some(summer) = &self.summer else {
            return Span {
                offset: self.standard,
                start: begin,
                end: i64::MAX,
            };
        };
        let year = Date::from_days((at + self.standard).div_euclid(DAY)).year;
        // The changes of three years hold every time of the middle one, wherever its year begins.
        let mut changes: Vec<(i64, i64)> = (year - 1..=year + 1)
            .flat_map(|year| {
                [
                    (summer.start.in_year(year) - self.standard, summer.offset),
                    (summer.end.in_year(year) - summer.offset, self.standard),
                ]
            })
            .collect();
        changes.sort_unstable();
        let after = changes.partition_point(|(change, _)| *change <= at);
        let (start, offset) = match after.checked_sub(1) {
            Some(last) => changes[last],
            None => (begin, self.standard),
        };
        Span {
            offset,
            start: start.max(begin),
            end: changes.get(after).map_or(i64::MAX, |(end, _)| *end),
        }
    }
}

// --- Change ---

impl Change {
    /// In seconds since 1970, by the clocks until then.
    fn in_year(&self, year: i64) -> i64 {
        let first = Date {
            year,
            month: 1,
            day: 1,
        };
        let day = match self.day {
            Day::Julian(day) => {
                let leaps = days_in(year, 2) == 29 && day >= 60;
                first.days() + day - 1 + i64::from(leaps)
            }
            Day::Counted(day) => first.days() + day,
            Day::Weekday { month, week, weekday } => {
                let first = Date { year, month, day: 1 }.days();
                let ahead = (weekday - weekday_of(first)).rem_euclid(7) + (week - 1) * 7;
                let beyond = ahead >= days_in(year, month);
                first + ahead - if beyond { 7 } else { 0 }
            }
        };
        day * DAY + self.second
    }
}

/// Which day of the week a day since 1970 is; Sunday is 0.
pub fn weekday_of(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

// --- Reader ---

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    /// `CET`, or `<+03>`.
    fn name(&mut self) -> Option<()> {
        let end = if self.rest.starts_with('<') {
            self.rest.find('>')? + 1
        } else {
            let letters = |b: &u8| b.is_ascii_alphabetic();
            self.rest.bytes().take_while(letters).count()
        };
        self.rest = &self.rest[end..];
        (end > 0).then_some(())
    }

    /// `-1`, `5:30`, `2:00:00`, in seconds.
    fn clock(&mut self) -> Option<i64> {
        let negative = self.rest.starts_with('-');
        self.rest = self.rest.strip_prefix(['-', '+']).unwrap_or(self.rest);
        let mut seconds = self.number()? * 3600;
        for unit in [60, 1] {
            if self.take(':') {
                seconds += self.number()? * unit;
            }
        }
        Some(if negative { -seconds } else { seconds })
    }

    /// `,M3.5.0/3`
    fn change(&mut self) -> Option<Change> {
        if !self.take(',') {
            return None;
        }
        let day = if self.take('M') {
            let month = self.number()?;
            let week = self.take('.').then(|| self.number())??;
            let weekday = self.take('.').then(|| self.number())??;
            Day::Weekday { month, week, weekday }
        } else if self.take('J') {
            Day::Julian(self.number()?)
        } else {
            Day::Counted(self.number()?)
        };
        let second = if self.take('/') { self.clock()? } else { 7200 };
        Some(Change { day, second })
    }

    fn number(&mut self) -> Option<i64> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    fn take(&mut self, one: char) -> bool {
        let rest = self.rest.strip_prefix(one);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_fall_on_the_day_they_say() {
        let day = |rule: &str, year: i64| {
            let change = Reader { rest: rule }.change().unwrap();
            let date = Date::from_days(change.in_year(year).div_euclid(DAY));
            (date.month, date.day)
        };
        assert_eq!(day(",M3.5.0", 2026), (3, 29));
        assert_eq!(day(",M3.2.0", 2026), (3, 8));
        assert_eq!(day(",M2.5.0", 2026), (2, 22));
        assert_eq!(day(",J60", 2024), (3, 1));
        assert_eq!(day(",59", 2024), (2, 29));
        assert_eq!(day(",M10.5.0/-1", 2026), (10, 24));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            "",
            "CET",
            "CET-1CEST",
            "CET-1CEST,M3",
            "CET-1CEST,M3.5.0,M10.5.0/3x",
        ] {
            assert_eq!(Rule::read(bad), None, "{bad}");
        }
        assert!(Rule::read("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1").is_some());
    }
}
