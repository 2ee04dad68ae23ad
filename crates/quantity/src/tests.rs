use proptest::prelude::*;
use serde_json::json;

use super::*;

fn q(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn each_amount_has_one_form() {
    for (text, form) in [
        ("0", "0"),
        ("00", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1.0", "1"),
        ("10", "10"),
        ("1000", "1k"),
        ("1234000", "1234k"),
        ("1000000", "1M"),
        ("3e3", "3e3"),
        ("3E3", "3E3"),
        ("3000e0", "3e3"),
        ("1e4", "10e3"),
        ("1e-1", "100e-3"),
        ("5E", "5E"),
        ("1Ki", "1Ki"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1024Mi", "1Gi"),
        ("10240Mi", "10Gi"),
        ("2048", "2048"),
        ("1000Ki", "1000Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.1Ki", "1126400m"),
        ("8Ki", "8Ki"),
        ("-1Ki", "-1Ki"),
        ("-1000m", "-1"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1e-100", "1e-9"),
        ("8Ei", "9223372036854775807"),
        ("100Ei", "9223372036854775807"),
        ("4Ei", "4Ei"),
        ("10E", "10E"),
        ("10000000000000000000", "10E"),
        ("10.0000000000000000001E", "10000000000000000000100m"),
        ("10.000000000000000001E", "10000000000000000001"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ] {
        assert_eq!(q(text).to_string(), form, "{text}");
    }
}

#[test]
fn keeps_canonical_text() {
    for text in ["+1", "1.500", "12.345", "005Ki", "+3m"] {
        assert_eq!(q(text).to_string(), text);
    }
    for (text, form) in [
        ("+1000", "1k"),
        ("1.1000", "1100m"),
        (".5", "500m"),
        ("5.", "5."),
        ("008Ki", "8Ki"),
    ] {
        assert_eq!(q(text).to_string(), form);
    }
}

#[test]
fn odd_texts_are_nothing() {
    for text in ["+", "-", ".", "Mi", "e5", "-.m"] {
        assert!(q(text).is_zero(), "{text}");
        assert_eq!(q(text).to_string(), "0");
    }
}

#[test]
fn what_is_no_amount_is_refused_with_a_reason() {
    for (text, error) in [
        ("", ParseError::Format),
        (" 1", ParseError::Format),
        ("1 ", ParseError::Format),
        ("abc", ParseError::Format),
        ("1.2.3", ParseError::Format),
        ("--1", ParseError::Suffix),
        ("1_000", ParseError::Format),
        ("\u{661}", ParseError::Format),
        ("1e+", ParseError::Suffix),
        ("1K", ParseError::Suffix),
        ("1ki", ParseError::Suffix),
        ("1mm", ParseError::Suffix),
        ("1e", ParseError::Suffix),
        ("1+5", ParseError::Suffix),
        ("1e99999999999", ParseError::Suffix),
    ] {
        assert_eq!(text.parse::<Quantity>().unwrap_err(), error, "{text}");
    }
    assert_eq!(
        "1".repeat(5000).parse::<Quantity>().unwrap_err(),
        ParseError::Numeric
    );
    assert_eq!(
        ParseError::Format.to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn amounts_are_compared_not_texts() {
    assert_eq!(q("1000m"), q("1"));
    assert_eq!(q("1Ki"), q("1024"));
    assert_eq!(q("1e3"), q("1k"));
    assert!(q("999m") < q("1") && q("-2") < q("-1") && q("-1") < q("0"));
    assert!(q("1e2000000000") > q("9E"));
    assert!(q("-1e2000000000") < q("1n"));
    assert!(q("1Ei") > q("1E"));
    assert_eq!(q("1e2000000000").cmp(&q("1e2000000000")), Ordering::Equal);
}

#[test]
fn sums_keep_the_format_of_the_first_non_zero_operand() {
    for (a, b, sum) in [
        ("1", "500m", "1500m"),
        ("0", "1Gi", "1Gi"),
        ("1Gi", "0", "1Gi"),
        ("1Gi", "1G", "2073741824"),
        ("512Mi", "512Mi", "1Gi"),
        ("9E", "9E", "18E"),
        ("1e3", "1", "1001"),
        ("1n", "1", "1000000001n"),
        ("1", "-1", "0"),
        ("1e2000000000", "1", "1e2000000000"),
    ] {
        let mut total = q(a);
        total.add(&q(b));
        let shown = total.to_string();
        assert!(shown == sum || q(&shown) == q(sum), "{a} + {b} = {shown}");
        total.sub(&q(b));
        if !a.contains("e2000") {
            assert_eq!(total, q(a), "{a} + {b} - {b}");
        }
    }
    let mut less = Quantity::zero();
    less.sub(&q("1Ki"));
    assert_eq!(less.to_string(), "-1Ki");
    less.neg();
    assert_eq!(less.to_string(), "1Ki");
}

#[test]
fn whole_and_milli_values_round_away_from_zero() {
    for (text, value, milli) in [
        ("1", 1, 1000),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("1Ki", 1024, 1_024_000),
        ("100E", i64::MAX, i64::MAX),
        ("-100E", i64::MIN, i64::MIN),
        ("0", 0, 0),
    ] {
        assert_eq!((q(text).value(), q(text).milli_value()), (value, milli), "{text}");
    }
    assert_eq!(q("3000m").to_i64(), Some(3));
    assert_eq!(q("3001m").to_i64(), None);
    assert_eq!(q("100E").to_i64(), None);
    assert_eq!(q("9223372036854775807").to_i64(), Some(i64::MAX));
    assert!((q("1500m").to_f64() - 1.5).abs() < 1e-12);
    let mut rounded = q("1100001u");
    rounded.round_up(MILLI);
    assert_eq!(rounded.to_string(), "1101m");
}

#[test]
fn fields_hold_texts_or_numbers() {
    for (value, text) in [
        (json!(" 1Gi "), "1Gi"),
        (json!(2), "2"),
        (json!(0.5), "500m"),
        (json!(null), "0"),
    ] {
        assert_eq!(Quantity::from_value(&value).unwrap().to_string(), text);
    }
    assert_eq!(Quantity::from_value(&json!([])).unwrap_err(), ParseError::Format);
}

proptest! {
    #[test]
    fn the_one_form_is_the_same_amount_and_stays(
        number in "[+-]?[0-9]{0,25}(\\.[0-9]{0,12})?",
        suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti",
            "Pi", "Ei", "e3", "e-4", "E17"]),
    ) {
        let Ok(quantity) = format!("{number}{suffix}").parse::<Quantity>() else { return Ok(()) };
        let form = Quantity { text: None, ..quantity.clone() }.to_string();
        prop_assert_eq!(&q(&form), &quantity, "{}", form);
        prop_assert_eq!(q(&form).to_string(), form);
        let kept = quantity.to_string();
        prop_assert_eq!(&q(&kept), &quantity);
        prop_assert_eq!(q(&kept).to_string(), kept);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+.0-9eEinumkKMGTP]{0,20}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value(), quantity.to_f64());
            let mut sum = quantity.clone();
            sum.add(&Quantity::new(1, Format::BinarySi));
            prop_assert!(sum >= quantity);
        }
    }

    #[test]
    fn amounts_order_and_add_as_numbers(a in -10_000_000_i64..10_000_000, b in -10_000_000_i64..10_000_000, sa in -9..9, sb in -9..9) {
        let x = Quantity::scaled(a, sa, Format::DecimalSi);
        let y = Quantity::scaled(b, sb, Format::DecimalSi);
        let exact = |n: i64, s: i32| i128::from(n) * 10_i128.pow(u32::try_from(s + 9).unwrap());
        prop_assert_eq!(x.cmp(&y), exact(a, sa).cmp(&exact(b, sb)));
        let mut sum = x;
        sum.add(&y);
        let expected = exact(a, sa) + exact(b, sb);
        prop_assert_eq!(i128::from(sum.scaled_value(-9)), expected.clamp(i64::MIN.into(), i64::MAX.into()));
    }
}
