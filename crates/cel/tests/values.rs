//! What expressions give: a source, and its value or error.

use k3_cel::{Bindings, Environment, PER_CALL_LIMIT, Program, Shape};
use serde_json::{Value as Json, json};

fn run(source: &str) -> Result<Json, String> {
    let environment = Environment::new().variable("object", Shape::Dyn).with_bindings();
    let object = json!({
        "n": 5, "big": 9_007_199_254_740_993_i64, "f": 1.5, "s": "text", "b": true, "null": null,
        "list": [1, 2, 3], "map": {"a": 1, "x-y": 2}, "objects": [{"name": "a", "v": 1}, {"name": "b", "v": 2}],
    });
    let program = Program::compile(&environment, source).map_err(|error| error.to_string())?;
    let bindings = Bindings::new().json("object", &object, &Shape::Dyn.into());
    let value = program
        .evaluate(&bindings, PER_CALL_LIMIT)
        .result
        .map_err(|error| error.to_string())?;
    value.to_json().map_err(|error| error.to_string())
}

/// All of these are true.
#[test]
fn expressions_that_hold() {
    let sources = [
        // numbers
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 2u + 3u == 5u && 1.5 + 1.0 == 2.5",
        "1 == dyn(1.0) && dyn(1u) == 1 && 1 < 1.5 && 2u > 1 && dyn(1) == dyn(1u) && -1 < 0u",
        "object.n == 5 && object.n + 1 == 6 && object.big == 9007199254740993 && object.f == 1.5",
        "0x1F == 31 && 1e3 == 1000.0 && .5 == 0.5 && -9223372036854775808 < 0",
        // text
        "'a' + \"b\" == 'ab' && 'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')",
        r"'\x41\u0042\103' == 'ABC' && r'\n' == '\\n' && '''a'b''' == 'a\'b' && b'a\xff' == b'\141\377'",
        "'h\u{e9}llo'.size() == 5 && size('abc') == 3 && 'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''",
        "'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.lastIndexOf('ello') == 7 && 'a'.indexOf('') == 0",
        "'hello mellow'.indexOf('ello', 2) == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1 && 'a'.indexOf('b') == -1",
        "'Ab'.lowerAscii() == 'ab' && 'Ab'.upperAscii() == 'AB' && ' a '.trim() == 'a'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && 'a-b'.replace('-', '') == 'ab'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'abcd'.substring(1) == 'bcd' && 'abcd'.substring(1, 3) == 'bc' && ['a', 'b'].join('-') == 'a-b' && ['a'].join() == 'a'",
        "'%s|%d|%.2f|%x|%b|%o'.format([dyn('a'), 5, 1.256, 255, 5, 8]) == 'a|5|1.26|ff|101|10'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%s'.format([{'a': 1}]) == '{\"a\":1}' && '%%'.format([]) == '%'",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
        "'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('^b') && 'a{'.matches('a{')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == '' && '123 45'.findAll('\\\\d+') == ['123', '45']",
        "'1 2 3'.findAll('[0-9]', 2) == ['1', '2'] && '\u{663}'.find('\\\\d') == ''",
        // conversions
        "int('5') == 5 && int(5.9) == 5 && int(-5.9) == -5 && int(3u) == 3 && uint(3) == 3u && double('1.5') == 1.5",
        "string(5) == '5' && string(1.5) == '1.5' && string(1e6) == '1e+06' && string(true) == 'true' && string(b'a') == 'a'",
        "bool('true') && !bool('F') && bytes('a') == b'a' && type(1) == int && type('a') == string && type(type(1)) == type",
        "type([]) == list && type({}) == map && type(null) == null_type && type(1.0) == double && type(object) == map",
        // time
        "timestamp('2023-05-06T07:08:09.5Z').getHours() == 7 && timestamp('2023-05-06T07:08:09Z').getDayOfWeek() == 6",
        "timestamp('2023-05-06T07:08:09Z').getMonth() == 4 && timestamp('2023-05-06T07:08:09Z').getDate() == 6",
        "timestamp('2023-05-06T07:08:09Z').getDayOfYear() == 125 && timestamp('2023-05-06T07:08:09Z').getFullYear() == 2023",
        "timestamp('2023-05-06T07:08:09Z').getHours('02:00') == 9 && timestamp('2023-05-06T07:08:09Z').getHours('-02:30') == 4",
        "timestamp('2023-07-06T07:08:09Z').getHours('Europe/Paris') == 9 && timestamp('2023-01-06T07:08:09Z').getHours('America/New_York') == 2",
        "string(timestamp('2023-05-06T07:08:09.5Z')) == '2023-05-06T07:08:09.5Z' && int(timestamp('1970-01-01T00:01:00Z')) == 60",
        "duration('1h30m') == duration('90m') && string(duration('90s')) == '90s' && duration('1.5s').getMilliseconds() == 1500",
        "timestamp('2023-01-01T00:00:00Z') + duration('24h') == timestamp('2023-01-02T00:00:00Z')",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h') && duration('1h').getMinutes() == 60",
        // lists and maps
        "[1, 2] + [3] == [1, 2, 3] && 2 in [1, 2] && !(3 in [1, 2]) && [1, 2][1] == 2 && size([1]) == 1",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && 'a' in {'a': 1} && has({'a': 1}.a) && !has({'a': 1}.b) && size({'a': 1}) == 1",
        "{1: 'a'}[1] == 'a' && {1: 'a'}[dyn(1.0)] == 'a' && {true: 1}[true] == 1",
        "object.map['x-y'] == 2 && has(object.map.a) && !has(object.map.b) && 'a' in object.map && object.list[0] == 1",
        "object.list.all(x, x > 0) && object.list.exists(x, x == 2) && object.list.exists_one(x, x == 2)",
        "object.list.map(x, x * 2) == [2, 4, 6] && object.list.filter(x, x > 1) == [2, 3] && [1, 2].map(x, x > 1, x + 1) == [3]",
        "object.map.all(k, k.size() > 0) && object.map.exists(k, k == 'a') && {'a': 1}.map(k, k) == ['a']",
        "object.objects.exists(o, o.name == 'b' && o.v == 2) && object.objects.map(o, o.v).sum() == 3",
        "[1, 2].all(i, v, i < v) && {'a': 1}.all(k, v, k == 'a' && v == 1) && [5].exists(i, v, i == 0 && v == 5)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, v > 1, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
        "['a'].transformMapEntry(i, v, {v: i}) == {'a': 0} && [1, 2].existsOne(i, v, v == 2)",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [1, 2, 3].reverse() == [3, 2, 1]",
        "[{'v': 2}, {'v': 1}].sortBy(o, o.v) == [{'v': 1}, {'v': 2}] && [1, 1, 2].distinct() == [1, 2]",
        "[[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(1, 2) == [2] && lists.range(3) == [0, 1, 2]",
        "[1, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1, 3].max() == 3 && [1, 3].min() == 1 && [1.0].sum() == 1.0",
        "[1, 2].indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2]) && !sets.intersects([1], [2])",
        // optionals
        "object.?n.hasValue() && !object.?zz.hasValue() && object.?zz.orValue(7) == 7 && object.?n.orValue(7) == 5",
        "object.?map.?a.value() == 1 && object[?'n'].orValue(0) == 5 && [1][?3].orValue(0) == 0 && object.?zz.a.orValue(1) == 1",
        "optional.of(1).value() == 1 && !optional.none().hasValue() && optional.ofNonZeroValue(0) == optional.none()",
        "optional.of(1).optMap(x, x + 1).value() == 2 && optional.of(1).optFlatMap(x, optional.of(x)).value() == 1",
        "[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none()} == {} && {?'a': optional.of(1)} == {'a': 1}",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().or(optional.of(2)).value() == 2",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && optional.unwrap([optional.of(1), optional.none()]) == [1]",
        // libraries
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('5m') && !isQuantity('x') && quantity('1k').asInteger() == 1000",
        "quantity('50k').add(20) == quantity('50020') && quantity('1').compareTo(quantity('2')) == -1 && sign(quantity('-1')) == -1",
        "quantity('1.5').asApproximateFloat() == 1.5 && !quantity('1.5').isInteger() && quantity('1').sub(quantity('1')).asInteger() == 0",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && isIP('1.2.3.4') && !isIP('1.2.3') && string(ip('::0001')) == '::1'",
        "ip.isCanonical('127.0.0.1') && !ip.isCanonical('2001:DB8::1') && ip('8.8.8.8').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP(ip('10.0.0.1')) && isCIDR('::/0') && !isCIDR('10.0.0.0')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').ip() == ip('10.0.0.0') && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "url('https://u@e.com:80/p/q?a=1&a=2&b#f').getHost() == 'e.com:80' && url('https://e.com:80/').getHostname() == 'e.com'",
        "url('https://[::1]:80/').getPort() == '80' && url('https://[::1]:80/').getHostname() == '::1' && url('/path').getScheme() == ''",
        "url('https://e.com/a b').getEscapedPath() == '/a%20b' && url('https://e.com/?a=1&a=2').getQuery() == {'a': ['1', '2']}",
        "isURL('https://e.com') && !isURL('e.com') && isURL('/x') && !isURL('../x')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0-a.1+b') && !isSemver('v1.0.0') && isSemver('v1.0', true)",
        "semver('1.2.3').major() == 1 && semver('1.0.0-a').isLessThan(semver('1.0.0')) && semver('v01.2', true).minor() == 2",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "format.named('uuid').value().validate('x').value() == ['does not match the UUID format'] && !format.named('x').hasValue()",
        "cel.bind(x, 5, x + x) == 10",
        // errors are absorbed
        "true || object.zz && false || true",
        "!(object.zz == 1 && false) && (object.zz == 1 || true) && [1, 0].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 5)",
        "true ? true : object.zz",
        "object['null'] == null && !(object.n == null) && object.n != 'a'",
        "[1].all(int, int == 1) && {'b-c': 1}.`b-c` == 1",
    ];
    let failed: Vec<_> = sources
        .iter()
        .map(|source| (source, run(source)))
        .filter(|(_, is)| *is != Ok(Json::Bool(true)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn expressions_that_fail() {
    for (source, error) in [
        ("object.zz", "no such key: zz"),
        ("object.list[5]", "index out of bounds: 5"),
        ("object.list['a']", "unsupported index type 'string' in list"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("object.n + 'a'", "no such overload"),
        ("object.s < 1", "no such overload"),
        ("object.map + object.map", "no such overload: _+_"),
        ("size(object.n)", "no such overload: size"),
        ("object.n.startsWith('a')", "no such overload"),
        ("object.n.charAt(1)", "no such overload: charAt(int, int)"),
        ("object.n ? 1 : 2", "no such overload"),
        ("object.n && true", "no such overload"),
        ("object.n.foo", "no such key: foo"),
        ("int(object.s)", "type conversion error from 'string' to 'int'"),
        ("int(1e30 * object.f)", "integer overflow"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.substring(5)", "index out of range: 5"),
        (
            "'abc'.substring(2, 1)",
            "invalid substring range. start: 2, end: 1",
        ),
        ("[].min()", "min called on empty list"),
        (
            "ip('x')",
            "IP Address \"x\" parse error during conversion from string: ParseAddr(\"x\"): unable to parse IP",
        ),
        (
            "ip('2001:db8:::68')",
            "IP Address \"2001:db8:::68\" parse error during conversion from string: ParseAddr(\"2001:db8:::68\"): each \
             colon-separated field must have at least one digit (at \":68\")",
        ),
        (
            "quantity('x')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("object.list.map(x, x / 0)", "division by zero"),
        (
            "lists.range(1000000).map(x, x).size()",
            "operation cancelled: actual cost limit exceeded",
        ),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
            "timestamp overflow",
        ),
    ] {
        assert_eq!(run(source).unwrap_err(), error, "{source}");
    }
}
