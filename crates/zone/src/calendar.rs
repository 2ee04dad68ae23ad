//! Days of the Gregorian calendar, counted.

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// May be before the year 1.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// From 1.
    pub day: i64,
}

/// Four centuries have as many days, always.
const ERA_DAYS: i64 = 146_097;

/// From the first of March of the year 0 to the first of January 1970. Years that begin in March have their
/// leap day at the end, where it disturbs no count.
const EPOCH: i64 = 719_468;

/// How many days a month has.
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

// --- Date ---

impl Date {
    /// Days since the first of January 1970.
    pub fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let march_month = (self.month + 9) % 12;
        let day_of_year = (153 * march_month + 2) / 5 + self.day - 1;
        let year_of_era = year.rem_euclid(400);
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        year.div_euclid(400) * ERA_DAYS + day_of_era - EPOCH
    }

    /// The day that many days after the first of January 1970.
    pub fn from_days(days: i64) -> Self {
        let shifted = days + EPOCH;
        let day_of_era = shifted.rem_euclid(ERA_DAYS);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = shifted.div_euclid(ERA_DAYS) * 400 + year_of_era + i64::from(month <= 2);
        Date {
            year,
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_thousand_years_is_counted_once() {
        let mut date = Date {
            year: 1600,
            month: 1,
            day: 1,
        };
        for days in date.days().. {
            assert_eq!(date.days(), days);
            assert_eq!(Date::from_days(days), date);
            date.day += 1;
            if date.day > days_in(date.year, date.month) {
                date = Date {
                    day: 1,
                    month: date.month + 1,
                    ..date
                };
            }
            if date.month > 12 {
                date = Date {
                    month: 1,
                    year: date.year + 1,
                    ..date
                };
            }
            if date.year > 2600 {
                return;
            }
        }
    }

    #[test]
    fn the_count_begins_in_1970() {
        assert_eq!(
            Date {
                year: 1970,
                month: 1,
                day: 1
            }
            .days(),
            0
        );
        assert_eq!(
            Date {
                year: 1,
                month: 1,
                day: 1
            }
            .days(),
            -719_162
        );
    }
}
