//! Numbers, times and texts at the ends of their ranges, with the values and errors of cel-go.

use k3_cel::{Bindings, Environment, PER_CALL_LIMIT, Program};
use serde_json::Value as Json;

fn run(source: &str) -> Result<Json, String> {
    let program = Program::compile(&Environment::new(), source).map_err(|error| error.to_string())?;
    let value = program.evaluate(&Bindings::new(), PER_CALL_LIMIT).result;
    value
        .and_then(|value| value.to_json())
        .map_err(|error| error.to_string())
}

#[track_caller]
fn assert_true(sources: &[&str]) {
    let failed: Vec<_> = sources
        .iter()
        .map(|source| (source, run(source)))
        .filter(|(_, result)| *result != Ok(Json::Bool(true)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[track_caller]
fn assert_errors(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let error = run(source).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn whole_numbers_at_their_ends() {
    assert_true(&[
        "9223372036854775806 + 1 == 9223372036854775807",
        "-9223372036854775807 - 1 == -9223372036854775808",
        "-9223372036854775808 + 9223372036854775807 == -1",
        "4611686018427387904 * -2 == -9223372036854775808",
        "18446744073709551614u + 1u == 18446744073709551615u",
        "0x7fffffffffffffff == 9223372036854775807 && -0x8000000000000000 == -9223372036854775808",
        "0xffffffffffffffffu == 18446744073709551615u",
        "uint('18446744073709551615') == 18446744073709551615u && int('-9223372036854775808') < 0",
        "int(9223372036854774784.0) == 9223372036854774784",
        "9223372036854775807 % 10 == 7 && -9223372036854775807 % 10 == -7",
    ]);
    assert_errors(&[
        ("9223372036854775807 - -1 > 0", "integer overflow"),
        ("-9223372036854775808 * -1 > 0", "integer overflow"),
        ("4611686018427387904 * 2 > 0", "integer overflow"),
        ("-9223372036854775808 - 1 < 0", "integer overflow"),
        ("1u - 2u < 1u", "unsigned integer overflow"),
        ("9223372036854775808 > 0", "invalid int literal"),
        ("18446744073709551616u > 0u", "invalid uint literal"),
        ("1e999 > 0.0", "invalid double literal"),
        ("int(1e19) > 0", "integer overflow"),
        ("int(0.0 / 0.0) > 0", "integer overflow"),
        ("uint(1e20) > 0u", "unsigned integer overflow"),
        (
            "int('9223372036854775808') > 0",
            "type conversion error from 'string' to 'int'",
        ),
        ("int('0x10') > 0", "type conversion error from 'string' to 'int'"),
        ("uint('-1') > 0u", "type conversion error from 'string' to 'uint'"),
        (
            "double('one') > 0.0",
            "type conversion error from 'string' to 'double'",
        ),
    ]);
}

#[test]
fn numbers_of_different_types_are_compared_by_their_values() {
    assert_true(&[
        "dyn(9223372036854775807) < dyn(9223372036854775808.0)",
        "dyn(18446744073709551615u) > dyn(9223372036854775807)",
        "dyn(1) == dyn(1u) && dyn(1u) == dyn(1.0) && dyn(-1) < dyn(0u) && dyn(1.5) > dyn(1)",
        "dyn(1) in [dyn(1.0)] && {1: 'a'}[dyn(1u)] == 'a'",
        "!(dyn(1) == dyn('1')) && dyn([1]) != dyn([1.5])",
    ]);
}

/// A timestamp is from year 1 to year 9999; a duration has 64 bits of nanoseconds.
#[test]
fn times_and_durations_at_their_ends() {
    assert_true(&[
        "timestamp('0001-01-01T00:00:00Z') < timestamp('9999-12-31T23:59:59.999999999Z')",
        "timestamp('9999-12-31T23:59:58Z') + duration('1s') == timestamp('9999-12-31T23:59:59Z')",
        "timestamp('0001-01-01T00:00:01Z') - duration('1s') == timestamp('0001-01-01T00:00:00Z')",
        "int(timestamp('0001-01-01T00:00:00Z')) == -62135596800",
        "int(timestamp('9999-12-31T23:59:59Z')) == 253402300799",
        "timestamp(253402300799) == timestamp('9999-12-31T23:59:59Z')",
        "timestamp('1970-01-01T00:00:00.000000001Z') > timestamp('1970-01-01T00:00:00Z')",
        "timestamp('2024-12-31T23:59:59Z').getDayOfYear() == 365 && timestamp('2023-12-31T00:00:00Z').getDayOfYear() == 364",
        "timestamp('1969-12-31T23:59:59.5Z').getMilliseconds() == 500",
        "duration('2562047h47m16.854775807s') > duration('2562047h47m16s')",
        "duration('-1h') < duration('0s')",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90 && duration('1ms').getSeconds() == 0",
        "string(duration('1h30m')) == '5400s' && string(duration('1ms')) == '0.001s' && string(duration('-1.5s')) == '-1.5s'",
        "string(timestamp('2024-01-01T00:00:00.100Z')) == '2024-01-01T00:00:00.1Z'",
    ]);
    assert_errors(&[
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s') > timestamp(0)",
            "timestamp overflow",
        ),
        (
            "timestamp('0001-01-01T00:00:00Z') - duration('1ns') < timestamp(0)",
            "timestamp overflow",
        ),
        (
            "timestamp('9999-12-31T00:00:00Z') - timestamp('0001-01-01T00:00:00Z') > duration('0s')",
            "overflow",
        ),
        (
            "duration('2562047h') + duration('2562047h') > duration('0s')",
            "duration overflow",
        ),
        (
            "duration('-2562047h') - duration('2562047h') < duration('0s')",
            "duration overflow",
        ),
        (
            "timestamp(253402300800) > timestamp(0)",
            "invalid timestamp argument",
        ),
        (
            "timestamp('10000-01-01T00:00:00Z') > timestamp(0)",
            "invalid timestamp argument",
        ),
        (
            "duration('2562048h') > duration('0s')",
            "invalid duration argument",
        ),
        ("duration('1') > duration('0s')", "invalid duration argument"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('25:00:00') == 0", ""),
    ]);
}

#[test]
fn positions_in_a_text_are_those_of_characters() {
    assert_true(&[
        "'\\u00a9\\u03b1T'.charAt(0) == '\\u00a9' && '\\u00a9\\u03b1T'.charAt(1) == '\\u03b1' && '\\u00a9\\u03b1T'.charAt(2) == 'T'",
        "'ta\\u00a9o\\u00a9\\u03b1T'.indexOf('\\u00a9') == 2 && 'ta\\u00a9o\\u00a9\\u03b1T'.indexOf('\\u00a9', 3) == 4",
        "'ta\\u00a9o\\u00a9\\u03b1T'.indexOf('\\u00a9\\u03b1T', 3) == 4 && 'ta\\u00a9o\\u00a9\\u03b1T'.indexOf('\\u00a9\\u03b1', 5) == -1",
        "'ta\\u00a9o\\u00a9\\u03b1T'.lastIndexOf('\\u00a9') == 4 && 'ta\\u00a9o\\u00a9\\u03b1T'.lastIndexOf('\\u00a9', 3) == 2",
        "'ta\\u00a9o\\u00a9\\u03b1T'.lastIndexOf('\\u00a9\\u03b1', 4) == 4",
        "'ta\\u00a9o\\u00a9\\u03b1T'.substring(2, 6) == '\\u00a9o\\u00a9\\u03b1' && 'ta\\u00a9o\\u00a9\\u03b1T'.substring(7, 7) == ''",
        "'o\\u00a9o\\u00a9o'.split('\\u00a9') == ['o', 'o', 'o'] && 'a\\u00e9'.split('') == ['a', '\\u00e9']",
        "'1 \\u00a9\\u03b1T taco'.replace('\\u03b1T', 'o\\u00a9\\u03b1') == '1 \\u00a9o\\u00a9\\u03b1 taco'",
        "'hello'.replace('', '_') == '_h_e_l_l_o_' && '\\u00e9a'.replace('', '-') == '-\\u00e9-a-'",
        "'\\U0001F431\\U0001F600'.size() == 2",
        "'tacocat'.indexOf('', 3) == 3 && 'tacocat'.indexOf('', 30) == 7 && 'tacocat'.indexOf('a', 30) == -1",
        "'tacocat'.lastIndexOf('') == 7 && 'tacocat'.lastIndexOf('', 3) == 3 && 'bananananana'.lastIndexOf('nana', 7) == 6",
        "'TacoC\\u00c6t'.lowerAscii() == 'tacoc\\u00c6t' && 'tacoC\\u03b1t'.upperAscii() == 'TACOC\\u03b1T'",
        "'\\u0085\\u00a0\\u1680text\\u2000\\u2028\\u3000'.trim() == 'text' && '\\u180etext\\u200b'.trim() == '\\u180etext\\u200b'",
        "strings.quote('bell\\a tab\\t \\\\ \"q\" \\u03c0') == '\"bell\\\\a tab\\\\t \\\\\\\\ \\\\\"q\\\\\" \\u03c0\"'",
        "'x'.startsWith('') && 'x'.endsWith('') && ''.contains('')",
    ]);
    assert_errors(&[
        ("'\\u00e9'.charAt(2) == ''", "index out of range: 2"),
        ("'\\u00e9'.substring(2) == ''", "index out of range: 2"),
        ("'tacocat'.substring(1, 50) == ''", "index out of range: 50"),
        ("'tacocat'.substring(49, 50) == ''", "index out of range: 49"),
        (
            "'tacocat'.substring(4, 3) == ''",
            "invalid substring range. start: 4, end: 3",
        ),
        ("'tacocat'.lastIndexOf('a', -1) == -1", "index out of range: -1"),
    ]);
}

#[test]
fn formats_and_their_errors() {
    assert_true(&[
        "'%s %s'.format([dyn('\\u00e9'), 1]) == '\\u00e9 1' && '%d%%'.format([5]) == '5%'",
        "'%b %b %o %x %X'.format([dyn(5), true, 8, 255, 255]) == '101 1 10 ff FF'",
        "'%x'.format(['hi']) == '6869' && '%x'.format([b'\\xff\\x00']) == 'ff00' && '%x'.format([-26]) == '-1a'",
        "'%.3f'.format([1.23456]) == '1.235' && '%f'.format([2.5]) == '2.500000'",
        "'%s'.format([[dyn(1), 'a', null]]) == '[1, \"a\", null]' && '%s'.format([type(1)]) == 'int'",
        "'%s'.format([duration('90s')]) == '90s' && '%s'.format([timestamp(0)]) == '1970-01-01T00:00:00Z'",
        "'%s'.format([{'b': 2, 'a': 1}]) == '{\"a\":1, \"b\":2}'",
    ]);
    assert_errors(&[
        ("'%'.format([1]) == ''", "unexpected end of string"),
        (
            "'%.'.format([1.0]) == ''",
            "could not find end of precision specifier",
        ),
        (
            "'%.f'.format([1.0]) == ''",
            "error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax",
        ),
        (
            "'%\\u00e9'.format([1]) == ''",
            "unrecognized formatting clause \"\u{e9}\"",
        ),
        (
            "'%d'.format([dyn(1.5)]) == ''",
            "error during formatting: decimal clause can only be used on integers, was given double",
        ),
        (
            "'%e'.format([dyn('x')]) == ''",
            "error during formatting: scientific clause can only be used on doubles, was given string",
        ),
        (
            "'%b'.format([dyn('x')]) == ''",
            "error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        ("'%s'.format([{1.5: 'a'}]) == ''", ""),
    ]);
}

#[test]
fn errors_of_the_libraries_of_kubernetes() {
    assert_errors(&[
        ("semver('').major() == 0", "Version string empty"),
        (
            "semver('1.2').major() == 0",
            "No Major.Minor.Patch elements found",
        ),
        (
            "semver('01.2.3').major() == 0",
            "Major number must not contain leading zeroes \"01\"",
        ),
        (
            "semver('1.x.3').major() == 0",
            "Invalid character(s) found in minor number \"x\"",
        ),
        ("semver('1.2.3-').major() == 0", "Prerelease is empty"),
        (
            "semver('1.2.3-01').major() == 0",
            "Numeric PreRelease version must not contain leading zeroes \"01\"",
        ),
        (
            "semver('1.2.3-a_b').major() == 0",
            "Invalid character(s) found in prerelease \"a_b\"",
        ),
        ("semver('1.2.3+').major() == 0", "Build meta data is empty"),
        (
            "semver('1.2.3+a_b').major() == 0",
            "Invalid character(s) found in build meta data \"a_b\"",
        ),
        (
            "semver('99999999999999999999.0.0').major() == 0",
            "value out of range",
        ),
        (
            "semver('1.2-a', true).major() == 0",
            "short version cannot contain PreRelease/Build meta data",
        ),
        (
            "url(':x').getHost() == ''",
            "URL parse error during conversion from string: parse \":x\": missing protocol scheme",
        ),
        ("url('relative').getHost() == ''", "invalid URI for request"),
        ("url('').getHost() == ''", "empty url"),
        (
            "url('http://h:x/').getHost() == ''",
            "invalid port \":x\" after host",
        ),
        ("url('http://[::1/').getHost() == ''", "missing ']' in host"),
        (
            "url('http://a b/').getHost() == ''",
            "invalid character \" \" in host name",
        ),
        (
            "url('http://h/%zz').getHost() == ''",
            "invalid URL escape \"%zz\"",
        ),
        (
            "cidr('10.0.0.0').prefixLength() == 0",
            "netip.ParsePrefix(\"10.0.0.0\"): no '/'",
        ),
        (
            "cidr('10.0.0.0/33').prefixLength() == 0",
            "prefix length out of range",
        ),
        (
            "cidr('10.0.0.0/x').prefixLength() == 0",
            "bad bits after slash: \"x\"",
        ),
        (
            "cidr('10.0.0/8').prefixLength() == 0",
            "ParseAddr(\"10.0.0\"): IPv4 address too short",
        ),
        ("ip('1.2.3.256').family() == 4", "IPv4 field has value >255"),
        ("ip('1.2.3.4.5').family() == 4", "IPv4 address too long"),
        (
            "ip('1..2.3').family() == 4",
            "IPv4 field must have at least one digit (at \".2.3\")",
        ),
        (
            "ip('12345::').family() == 6",
            "each group must have 4 or less digits (at \"12345::\")",
        ),
        ("ip('fe80::1%').family() == 6", "zone must be a non-empty string"),
        (
            "ip('fe80::1%eth0').family() == 6",
            "with zone value is not allowed",
        ),
        (
            "ip('::ffff:1.2.3.4').family() == 6",
            "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed",
        ),
        ("'a'.find('(') == ''", "missing closing )"),
        ("'a'.findAll('[') == []", "missing closing ]"),
    ]);
}
