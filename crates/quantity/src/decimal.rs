//! Exact decimal numbers.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::suffix::MAX_BINARY;

/// `mantissa * 10^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    mantissa: Mantissa,
    exponent: i64,
}

/// Nearly all amounts fit a machine word; the rest are kept as they are.
#[derive(Clone, Debug)]
enum Mantissa {
    Word(i64),
    /// The value exceeds 64 bits.
    Big(BigInt),
}

/// How far apart two exponents may be for their sum to be computed. Past it the smaller number is too small to
/// count, and writing both with one exponent would cost memory by the gigabyte.
const MAX_APART: i64 = 10_000;

/// The powers of ten that fit into 64 bits.
const WORD_POWERS: u32 = 18;

// --- Decimal ---

impl Decimal {
    pub(super) fn new(mantissa: i64, exponent: i64) -> Self {
        Decimal {
            mantissa: Mantissa::Word(mantissa),
            exponent,
        }
    }

    /// A number of decimal digits, times a power of two.
    pub(super) fn from_digits(digits: &str, exponent: i64, shift: u32) -> Option<Self> {
        if let Ok(word) = digits.parse::<i64>()
            && let Some(mantissa) = 1_i64.checked_shl(shift).and_then(|power| word.checked_mul(power))
        {
            return Some(Self::new(mantissa, exponent));
        }
        let big = BigInt::parse_bytes(digits.as_bytes(), 10)? << shift;
        Some(Self::from_big(big, exponent))
    }

    pub(super) fn sign(&self) -> Ordering {
        match &self.mantissa {
            Mantissa::Word(word) => word.cmp(&0),
            Mantissa::Big(big) => match big.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    pub(super) fn neg(&self) -> Self {
        match &self.mantissa {
            Mantissa::Word(word) if *word != i64::MIN => Self::new(-word, self.exponent),
            _ => Self::from_big(-self.big(), self.exponent),
        }
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        if other.sign() == Ordering::Equal {
            return self.clone();
        }
        if self.sign() == Ordering::Equal {
            return other.clone();
        }
        let (low, high) = if self.exponent <= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        let apart = high.exponent - low.exponent;
        if apart > MAX_APART {
            return if low.magnitude() > high.magnitude() {
                low.clone()
            } else {
                high.clone()
            };
        }
        if let (Mantissa::Word(a), Some(b)) = (&low.mantissa, high.word_times_power(apart))
            && let Some(sum) = a.checked_add(b)
        {
            return Self::new(sum, low.exponent);
        }
        Self::from_big(low.big() + high.big() * power_of_ten(apart), low.exponent)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.sign() == Ordering::Equal {
            return signs;
        }
        if let (Mantissa::Word(a), Mantissa::Word(b)) = (&self.mantissa, &other.mantissa)
            && self.exponent == other.exponent
        {
            return a.cmp(b);
        }
        // Numbers of as many digits before the point are close enough to be written with one exponent.
        let magnitudes = self.magnitude().cmp(&other.magnitude());
        if magnitudes != Ordering::Equal {
            return if self.sign() == Ordering::Less {
                magnitudes.reverse()
            } else {
                magnitudes
            };
        }
        let low = self.exponent.min(other.exponent);
        let a = self.big() * power_of_ten(self.exponent - low);
        let b = other.big() * power_of_ten(other.exponent - low);
        a.cmp(&b)
    }

    /// Rounded away from zero to a power of ten, unless it has no digits below it.
    pub(super) fn round_up(&self, exponent: i64) -> Option<Self> {
        if self.exponent >= exponent {
            return None;
        }
        let digits_dropped = exponent - self.exponent;
        if self.sign() == Ordering::Equal {
            return Some(Self::new(0, exponent));
        }
        if digits_dropped > self.digits() {
            let one = if self.sign() == Ordering::Less { -1 } else { 1 };
            return Some(Self::new(one, exponent));
        }
        let power = power_of_ten(digits_dropped);
        let big = self.big();
        let mut quotient = &big / &power;
        if &quotient * &power != big {
            quotient += if self.sign() == Ordering::Less { -1 } else { 1 };
        }
        Some(Self::from_big(quotient, exponent))
    }

    /// The same, or the limit if it is more.
    pub(super) fn at_most(&self, limit: i64) -> Self {
        let limit = Self::new(limit, 0);
        if self.compare(&limit) == Ordering::Greater {
            limit
        } else {
            self.clone()
        }
    }

    /// Whether it is between zero and one, both excluded.
    pub(super) fn is_fraction(&self) -> bool {
        self.sign() == Ordering::Greater && self.compare(&Self::new(1, 0)) == Ordering::Less
    }

    /// The value in powers of ten, rounded away from zero, saturated to 64 bits.
    pub(super) fn scaled(&self, exponent: i64) -> i64 {
        let limit = if self.sign() == Ordering::Less {
            i64::MIN
        } else {
            i64::MAX
        };
        let rounded = self.round_up(exponent);
        let number = rounded.as_ref().unwrap_or(self);
        number
            .word_times_power(number.exponent - exponent)
            .unwrap_or(limit)
    }

    /// The value as an integer, if it is one of 64 bits.
    pub(super) fn exact(&self) -> Option<i64> {
        let number = Self::new(self.scaled(0), 0);
        (number.compare(self) == Ordering::Equal).then(|| number.scaled(0))
    }

    pub(super) fn to_f64(&self) -> f64 {
        let (number, exponent) = self.base1000();
        format!("{number}e{exponent}").parse().unwrap_or(f64::INFINITY)
    }

    /// The shortest digits before a power of 1000.
    pub(super) fn base1000(&self) -> (String, i64) {
        if self.sign() == Ordering::Equal {
            return ("0".to_owned(), 0);
        }
        let mut text = self.text();
        let mut exponent = self.exponent;
        while text.ends_with('0') {
            text.pop();
            exponent += 1;
        }
        while exponent % 3 != 0 {
            text.push('0');
            exponent -= 1;
        }
        (text, exponent)
    }

    /// The shortest digits before a power of 1024. `None` if it is not whole, or less than 1024.
    pub(super) fn base1024(&self) -> Option<(String, usize)> {
        // Far more than any binary amount that was read: those are capped.
        if !(4..=100).contains(&self.magnitude()) {
            return None;
        }
        let mut big = self.big();
        if self.exponent >= 0 {
            big *= power_of_ten(self.exponent);
        } else {
            let power = power_of_ten(-self.exponent);
            let whole = &big / &power;
            if &whole * &power != big {
                return None;
            }
            big = whole;
        }
        if big.magnitude() < BigInt::from(1024).magnitude() {
            return None;
        }
        let mut power = 0;
        while power < MAX_BINARY && big.trailing_zeros().is_some_and(|zeros| zeros >= 10) {
            big >>= 10;
            power += 1;
        }
        Some((big.to_string(), power))
    }

    fn from_big(big: BigInt, exponent: i64) -> Self {
        match i64::try_from(&big) {
            Ok(word) => Self::new(word, exponent),
            Err(_) => Decimal {
                mantissa: Mantissa::Big(big),
                exponent,
            },
        }
    }

    fn big(&self) -> BigInt {
        match &self.mantissa {
            Mantissa::Word(word) => BigInt::from(*word),
            Mantissa::Big(big) => big.clone(),
        }
    }

    fn text(&self) -> String {
        match &self.mantissa {
            Mantissa::Word(word) => word.to_string(),
            Mantissa::Big(big) => big.to_string(),
        }
    }

    fn word_times_power(&self, power: i64) -> Option<i64> {
        let Mantissa::Word(word) = self.mantissa else {
            return None;
        };
        if word == 0 {
            return Some(0);
        }
        let power = u32::try_from(power).ok().filter(|power| *power <= WORD_POWERS)?;
        word.checked_mul(10_i64.pow(power))
    }

    /// How many digits the mantissa has.
    fn digits(&self) -> i64 {
        let text = self.text();
        let digits = text.strip_prefix('-').unwrap_or(&text).len();
        i64::try_from(digits).expect("a length fits")
    }

    /// The number of digits before the decimal point; negative if zeros follow the point.
    fn magnitude(&self) -> i64 {
        self.digits() + self.exponent
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).expect("exponents are close when they are aligned"))
}
