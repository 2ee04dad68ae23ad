//! Functions of the libraries at the ends of their ranges: what Kubernetes' CEL documents, and the errors of Go's packages beneath it.

use k3_cel::{Bindings, DeclType, Environment, ObjectDeclType, PER_CALL_LIMIT, Program, Shape};
use serde_json::{Value as Json, json};

fn run(source: &str) -> Result<Json, String> {
    let program = Program::compile(&Environment::new(), source).map_err(|error| error.to_string())?;
    let value = program.evaluate(&Bindings::new(), PER_CALL_LIMIT).result;
    value
        .and_then(|value| value.to_json())
        .map_err(|error| error.to_string())
}

fn assert_all_hold(sources: &[&str]) {
    let failed: Vec<_> = sources
        .iter()
        .map(|source| (source, run(source)))
        .filter(|(_, result)| *result != Ok(Json::Bool(true)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn assert_errors(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let error = run(source).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn whole_numbers_never_wrap() {
    assert_errors(&[
        ("-(-9223372036854775807 - 1) > 0", "integer overflow"),
        ("(-9223372036854775807 - 1) / -1 > 0", "integer overflow"),
        ("(-9223372036854775807 - 1) % -1 == 0", "integer overflow"),
        ("9223372036854775807 * 2 > 0", "integer overflow"),
        ("-9223372036854775807 - 2 < 0", "integer overflow"),
        ("18446744073709551615u + 1u > 0u", "unsigned integer overflow"),
        ("18446744073709551615u * 2u > 0u", "unsigned integer overflow"),
        ("1u / 0u == 1u", "division by zero"),
        ("1u % 0u == 1u", "modulus by zero"),
        ("int(18446744073709551615u) > 0", "integer overflow"),
        ("uint(-1) == 0u", "unsigned integer overflow"),
        ("uint(-1.0) == 0u", "unsigned integer overflow"),
        ("int(9223372036854775808.0) > 0", "integer overflow"),
    ]);
    assert_all_hold(&[
        "-9223372036854775807 - 1 < 0",
        "-7 % 3 == -1 && 7 % -3 == 1 && -7 / 2 == -3",
        "6 / 4 == 1 && 6.0 / 4.0 == 1.5 && 6u / 4u == 1u",
        "2 <= 2 && 3 >= 3 && !(2 > 2) && 2u >= 1u && 1.5 <= 1.5 && 'b' > 'a' && b'b' >= b'a'",
    ]);
}

#[test]
fn doubles_are_those_of_ieee_754() {
    assert_all_hold(&[
        "1.0 / 0.0 > 1e308 && -1.0 / 0.0 < -1e308",
        "!(0.0 / 0.0 == 0.0 / 0.0) && 0.0 / 0.0 != 0.0 / 0.0",
        "0.0 == -0.0",
        "9007199254740993 > dyn(9007199254740992.0)",
        "18446744073709551615u > dyn(9223372036854775807)",
        "dyn(-1) < dyn(0u)",
    ]);
    assert_errors(&[
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("1.0 >= 0.0 / 0.0", "NaN values cannot be ordered"),
    ]);
}

#[test]
fn texts_are_counted_in_characters() {
    assert_all_hold(&[
        "'\\U0001F431x'.size() == 2 && '\\U0001F431x'.charAt(1) == 'x' && '\\U0001F431x'.indexOf('x') == 1",
        "'\\U0001F431x'.substring(1) == 'x' && 'x\\U0001F431'.lastIndexOf('\\U0001F431') == 1",
        "bytes('\\u00e9').size() == 2 && '\\u00e9'.size() == 1",
        "'\\u00c9A'.lowerAscii() == '\\u00c9a'",
        "'a'.indexOf('', 1) == 1 && ''.indexOf('') == 0 && ''.lastIndexOf('') == 0",
        "'\\u0009a\\u2003'.trim() == 'a'",
        "'aXbXc'.replace('X', '', 0) == 'aXbXc' && 'aXbXc'.replace('X', '', -1) == 'abc' && 'ab'.replace('', '-') == '-a-b-'",
        "'a,b,c'.split(',', 0) == [] && 'a,b,c'.split(',', 1) == ['a,b,c'] && 'a,b,c'.split(',', -1) == ['a', 'b', 'c']",
        "''.split(',') == [''] && [].join(',') == ''",
    ]);
    assert_errors(&[
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.charAt(-1) == ''", "index out of range: -1"),
        ("'abc'.substring(-1) == ''", "index out of range: -1"),
        ("'abc'.substring(0, 4) == ''", "index out of range: 4"),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
        (
            "string(b'\\xff') == ''",
            "invalid UTF-8 in bytes, cannot convert to string",
        ),
    ]);
}

#[test]
fn named_formats_accept_and_explain() {
    for (format, good, bad) in [
        ("dns1123Label", "my-name", "My-name"),
        ("dns1123Subdomain", "example.com", "example..com"),
        ("dns1035Label", "my-name", "1name"),
        ("qualifiedName", "example.com/MyName", "/name"),
        ("dns1123LabelPrefix", "my-name-", "-name"),
        ("dns1123SubdomainPrefix", "example.com-", ".com"),
        ("dns1035LabelPrefix", "my-name-", "1x-"),
        ("labelValue", "my_Value", "my value"),
        ("uri", "http://example.com", "../relative"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("byte", "aGVsbG8=", "aGVsbG8"),
        ("date", "2021-01-01", "2021-13-01"),
        ("datetime", "2021-01-01T00:00:00Z", "2021-01-01"),
    ] {
        let source = format!("!format.{format}().validate('{good}').hasValue()");
        assert_eq!(run(&source), Ok(Json::Bool(true)), "{source}");
        let source = format!("format.{format}().validate('{bad}').value().size() > 0");
        assert_eq!(run(&source), Ok(Json::Bool(true)), "{source}");
        let source = format!("format.named('{format}').value() == format.{format}()");
        assert_eq!(run(&source), Ok(Json::Bool(true)), "{source}");
    }
    // The bits that the last digit has too many are ignored, but padding is required.
    assert_all_hold(&[
        "!format.byte().validate('Yh==').hasValue()",
        "format.byte().validate('').hasValue()",
        "format.byte().validate('-_-_').hasValue()",
    ]);
}

/// A field of the format `byte` is decoded with the alphabet of URLs, although the format has the other one.
#[test]
fn fields_of_bytes_are_decoded_as_upstream_does() {
    let object = DeclType::object(ObjectDeclType::default().field("data", Shape::Bytes)).named("self");
    let environment = Environment::new().variable("self", object.clone());
    let evaluate = |text: &str, source: &str| {
        let program = Program::compile(&environment, source).unwrap();
        let value = json!({"data": text});
        let bindings = Bindings::new().json("self", &value, &object);
        let result = program.evaluate(&bindings, PER_CALL_LIMIT).result;
        result
            .and_then(|value| value.to_json())
            .map_err(|error| error.to_string())
    };
    assert_eq!(evaluate("YWI=", "self.data == b'ab'"), Ok(Json::Bool(true)));
    assert_eq!(evaluate("YR==", "self.data == b'a'"), Ok(Json::Bool(true)));
    assert_eq!(evaluate("YWI=", "size(self.data) == 2"), Ok(Json::Bool(true)));
    assert_eq!(
        evaluate("/+/+", "size(self.data) == 3").unwrap_err(),
        "Invalid byte formatted string /+/+: illegal base64 data at input byte 0"
    );
    assert_eq!(
        evaluate("YWJjZ", "size(self.data) == 3").unwrap_err(),
        "Invalid byte formatted string YWJjZ: illegal base64 data at input byte 4"
    );
}

#[test]
fn addresses_know_their_kinds() {
    assert_all_hold(&[
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast() && !ip('10.0.0.1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()",
        "ip('127.255.255.254').isLoopback() && !ip('128.0.0.1').isLoopback() && ip('::').isUnspecified()",
        "!ip('255.255.255.255').isGlobalUnicast() && ip('10.0.0.1').isGlobalUnicast() && !ip('127.0.0.1').isGlobalUnicast()",
        "!isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0') && !isIP('01.2.3.4') && !isIP('1.2.3.4/24') && !isIP('')",
        "!isCIDR('::ffff:1.2.3.4/120') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08') && isCIDR('10.1.2.3/8')",
        "!cidr('10.0.0.0/8').containsIP('11.0.0.1') && !cidr('10.0.0.0/8').containsIP('::1')",
        "!cidr('10.0.0.0/16').containsCIDR('10.0.0.0/8') && cidr('10.0.0.0/8').containsCIDR('10.0.0.0/8')",
        "cidr('0.0.0.0/0').containsIP('255.255.255.255') && cidr('::/0').prefixLength() == 0",
    ]);
}

#[test]
fn times_have_zones_and_ends() {
    assert_all_hold(&[
        "timestamp('2024-02-29T12:34:56.789Z').getDayOfMonth() == 28 && timestamp('2024-02-29T12:34:56Z').getDate() == 29",
        "timestamp('2024-02-29T12:34:56.789Z').getSeconds() == 56 && timestamp('2024-02-29T12:34:56.789Z').getMilliseconds() == 789",
        "timestamp('2024-02-29T12:34:56Z').getMinutes('+05:30') == 4 && timestamp('2024-02-29T23:00:00Z').getDate('01:30') == 1",
        "timestamp('2024-01-01T00:00:00Z').getDayOfYear() == 0 && timestamp('2024-12-31T00:00:00Z').getDayOfYear() == 365",
        "timestamp('2024-01-01T01:00:00+01:00') == timestamp('2024-01-01T00:00:00Z')",
        "duration('-1.5h').getSeconds() == -5400 && duration('1us') < duration('1ms') && duration('0') == duration('0s')",
        "duration('1h') - duration('2h') == duration('-1h') && timestamp('2024-01-01T00:00:00Z') < timestamp('2024-01-01T00:00:00.000000001Z')",
    ]);
    assert_errors(&[
        (
            "timestamp('2023-02-29T00:00:00Z') == timestamp('2023-03-01T00:00:00Z')",
            "",
        ),
        ("timestamp('2024-01-01T24:00:00Z').getHours() == 0", ""),
        ("timestamp('2024-01-01').getHours() == 0", ""),
        (
            "timestamp('2024-01-01T00:00:00Z').getHours('Mars/Olympus') == 0",
            "unknown time zone Mars/Olympus",
        ),
        ("duration('1d') == duration('24h')", ""),
        ("duration('') == duration('0s')", ""),
        (
            "timestamp('0001-01-01T00:00:00Z') - duration('1s') < timestamp('0001-01-01T00:00:00Z')",
            "timestamp overflow",
        ),
    ]);
}

#[test]
fn quantities_and_versions_are_compared_as_values() {
    assert_all_hold(&[
        "quantity('1000m') == quantity('1') && quantity('1Ki').compareTo(quantity('1024')) == 0",
        "quantity('0.5').isLessThan(quantity('501m')) && quantity('1').isGreaterThan(quantity('-1'))",
        "quantity('9223372036854775807').isInteger() && !quantity('9223372036854775808').isInteger()",
        "quantity('1').sub(quantity('1500m')) == quantity('-500m') && sign(quantity('-0')) == 0",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10')) && semver('1.0.0+a') == semver('1.0.0+b')",
        "semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('2.0.0').isGreaterThan(semver('1.99.99'))",
        "!isSemver('1.2') && !isSemver('01.2.3') && isSemver('1.2', true) && !isSemver('', true) && semver('1.2.3').patch() == 3",
    ]);
    assert_errors(&[
        (
            "quantity('9223372036854775808').asInteger() > 0",
            "cannot convert value to integer",
        ),
        (
            "quantity('').isInteger()",
            "quantities must match the regular expression",
        ),
    ]);
}

#[test]
fn lists_are_sorted_and_cut_within_their_ends() {
    assert_all_hold(&[
        "[duration('2s'), duration('1s')].sort() == [duration('1s'), duration('2s')] && [true, false].sort() == [false, true]",
        "[{'k': 2, 'v': 20}, {'k': 1, 'v': 10}].sortBy(e, e.k).map(e, e.v) == [10, 20]",
        "[1, 2, 3].slice(0, 0) == [] && [1, 2, 3].slice(0, 3) == [1, 2, 3] && lists.range(0) == []",
        "[[[1], [2]], [[3]]].flatten(2) == [1, 2, 3] && [[1], [2]].flatten(0) == [[1], [2]]",
        "optional.unwrap([optional.none(), optional.of(2)]) == [2] && [optional.of(1), optional.none()].unwrapOpt() == [1]",
        "[dyn(1), dyn(1.0), dyn(1u)].distinct().size() == 1 && ['a', 'b', 'a'].distinct() == ['a', 'b']",
        "dyn([1, 2]) == dyn([1.0, 2.0]) && dyn({'a': 1}) == dyn({'a': 1.0}) && !([1] == [1, 1])",
    ]);
    assert_errors(&[
        ("[1, 2].slice(0, 3) == []", "cannot slice(0, 3), list is length 2"),
        (
            "[1, 2].slice(2, 1) == []",
            "cannot slice(2, 1), start index must be less than or equal to end index",
        ),
        (
            "[1, 2].slice(-1, 1) == []",
            "cannot slice(-1, 1), negative indexes not supported",
        ),
        ("[[1]].flatten(-1) == []", "level must be non-negative"),
        ("[1][-1] == 1", "index out of bounds: -1"),
    ]);
}

#[test]
fn expressions_that_do_not_compile() {
    assert_errors(&[
        ("1 +", "Syntax error: mismatched input '<EOF>'"),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("unknown", "undeclared reference to 'unknown' (in container '')"),
        (
            "1 + 'a'",
            "found no matching overload for '_+_' applied to '(int, string)'",
        ),
        ("[1, 2].all(x.y, true)", "argument must be a simple name"),
        ("has(1)", "invalid argument to has() macro"),
        ("'abc'.matches('(')", "invalid matches argument"),
        ("ip('x').family() == 4", ""),
        ("quantity('x') == quantity('1')", ""),
    ]);
}
