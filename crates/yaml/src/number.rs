//! Numbers as Go's `strconv.FormatFloat(f, 'g', -1, 64)` writes them, and texts that a reader takes for numbers or times.

use serde_json::Number;

/// A number.
pub(crate) fn format_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format_float(float),
        _ => number.to_string(),
    }
}

/// The shortest digits; with an exponent below -4, and from 6 on.
fn format_float(float: f64) -> String {
    // Digits and exponent as in `1.2345e6`.
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float}"),
    }
}

/// Whether a text that begins with a digit or a sign is read as a number or a time.
// As resolve in resolve.go of go.yaml.in/yaml/v2.
pub(crate) fn is_number_or_time(text: &str) -> bool {
    let plain = text.replace('_', "");
    is_time(text) || is_integer(&plain) || is_float(&plain) || is_signed_binary(&plain) || is_base_60(text)
}

/// Go's syntax with base 0, up to 64 bits.
fn is_integer(text: &str) -> bool {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (&text[..1], digits),
        None => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match (lower.get(..2), lower.get(2..)) {
        (Some("0x"), Some(rest)) => (16, rest),
        (Some("0b"), Some(rest)) => (2, rest),
        (Some("0o"), Some(rest)) => (8, rest),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(_) if sign.is_empty() => true,
        Ok(size) => size <= (1 << 63) - u64::from(sign == "+"),
        Err(_) => false,
    }
}

/// `0b-101` and `0b+101`: the reader cuts off `0b` and reads the rest as a binary number, with the rest's own sign.
fn is_signed_binary(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("0b") else {
        return false;
    };
    let digits = rest.strip_prefix(['-', '+']).unwrap_or_default();
    let is_binary = !digits.is_empty() && digits.bytes().all(|digit| matches!(digit, b'0' | b'1'));
    is_binary && i64::from_str_radix(rest, 2).is_ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
pub(crate) fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    let mut rest = &rest[whole..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if whole == 0 && fraction == 0 {
        return false;
    }
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else {
        return rest.is_empty();
    };
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    !exponent.is_empty() && digits(exponent) == exponent.len()
}

/// `[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?`, the sexagesimal numbers of YAML 1.1.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_digit_or_mark = |c: char| c.is_ascii_digit() || c == '_';
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let Some((first, rest)) = text.split_once(':') else {
        return false;
    };
    let are_valid = rest.split(':').all(|part| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    });
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().all(is_digit_or_mark)
        && are_valid
        && fraction.chars().all(is_digit_or_mark)
}

/// A date, or a date with a time of day.
// As parseTimestamp in resolve.go of go.yaml.in/yaml/v2.
fn is_time(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else {
        return false;
    };
    let Ok(year_number) = year.parse::<u32>() else {
        return false;
    };
    let Some((month, rest)) = rest.split_once('-') else {
        return false;
    };
    let day_length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, rest) = rest.split_at(day_length);
    let (Some(month), Some(day)) = (two_digits(month, 12), two_digits(day, 31)) else {
        return false;
    };
    let is_leap = year_number % 4 == 0 && (year_number % 100 != 0 || year_number % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date = year.len() == 4 && month > 0 && day > 0 && day <= days;
    is_date && (rest.is_empty() || is_time_of_day(rest))
}

/// `T15:04:05Z`, `t15:04:05+01:00` or ` 15:04:05`, each with or without a fraction.
fn is_time_of_day(text: &str) -> bool {
    let has_zone = text.starts_with(['T', 't']);
    let Some(text) = text.strip_prefix(['T', 't', ' ']) else {
        return false;
    };
    let mut parts = text.splitn(3, ':');
    let (Some(hour), Some(minute), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (second, mut rest) = rest.split_at(digits(rest));
    let numbers = [(hour, 23), (minute, 59), (second, 59)];
    if numbers.iter().any(|(text, max)| two_digits(text, *max).is_none()) {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if !has_zone {
        return rest.is_empty();
    }
    let offset = rest
        .strip_prefix(['+', '-'])
        .and_then(|rest| rest.split_once(':'));
    rest == "Z"
        || offset.is_some_and(|(hours, minutes)| {
            hours.len() == 2
                && minutes.len() == 2
                && two_digits(hours, 24).is_some()
                && two_digits(minutes, 60).is_some()
        })
}

/// One or two digits up to `max`.
fn two_digits(text: &str, max: u32) -> Option<u32> {
    let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= max)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn formats_numbers_like_go() {
        for (number, text) in [
            (json!(1), "1"),
            (json!(-5), "-5"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(0.5), "0.5"),
            (json!(100_000.5), "100000.5"),
            (json!(1e21), "1e+21"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(0.0001), "0.0001"),
        ] {
            let Value::Number(number) = number else { panic!() };
            assert_eq!(format_number(&number), text);
        }
    }

    #[test]
    fn finds_numbers_and_times() {
        for text in [
            "1",
            "-1",
            "+1",
            "1_000",
            "0x1f",
            "0b1",
            "-0b1",
            "+0B1",
            "0b-1",
            "0b+1",
            "0b_-1_0",
            "0b-1000000000000000000000000000000000000000000000000000000000000000",
            "0o7",
            "012",
            "08",
            "1.5",
            "1.",
            "1e3",
            "12e03",
            "1:30",
            "190:20:30.15",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "2001-01-01",
            "2001-1-1",
            "2024-02-29",
            "2026-01-02T03:04:05Z",
            "2026-01-02t3:4:5.5+01:00",
            "2026-01-02 03:04:05",
        ] {
            assert!(is_number_or_time(text), "{text}");
        }
        for text in [
            "1a",
            "1.2.3",
            "10.0.0.1",
            "5m30s",
            "0x",
            "0xg",
            "0b2",
            "0b-",
            "0b-2",
            "0b--1",
            "0B-1",
            "-0b-1",
            "-0b+1",
            "0x-1",
            "0o-1",
            "0b+1000000000000000000000000000000000000000000000000000000000000000",
            "1e",
            "1:60",
            "a:1",
            "10Gi",
            "2001-13-01",
            "2023-02-29",
            "2001-01",
            "2026-01-02T03:04:05",
            "2026-01-02T24:00:00Z",
            "0.0.0.0/0",
            "-",
            "+",
            "--1",
        ] {
            assert!(!is_number_or_time(text), "{text}");
        }
    }
}
