//! Texts.

// upstream: vendor/github.com/google/cel-go/ext/strings.go charAt, indexOf, replace, split, substr

use super::{Implementation, formatting};
use crate::{
    error::EvalError,
    value::{Result, Value},
};

/// The longest text that a function makes: what it costs is counted from what it is given.
const LONGEST: usize = 32 << 20;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "contains" | "endsWith" | "startsWith" => test,
        "charAt" => char_at,
        "indexOf" | "lastIndexOf" => index_of,
        "lowerAscii" => |name, args| map(name, args, str::to_ascii_lowercase),
        "upperAscii" => |name, args| map(name, args, str::to_ascii_uppercase),
        "trim" => |name, args| map(name, args, |text| text.trim_matches(is_space).to_owned()),
        "strings.quote" => |name, args| map(name, args, quote),
        "jsonpatch.escapeKey" => {
            |name, args| map(name, args, |text| text.replace('~', "~0").replace('/', "~1"))
        }
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "format" => formatting::format,
        "join" => join,
        _ => return None,
    })
}

fn map<'a>(name: &str, args: &[Value<'a>], change: impl Fn(&str) -> String) -> Result<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(change(text))),
        _ => super::no_overload(name, args),
    }
}

/// What Go counts as space.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn test<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (Value::String(text), Value::String(part)) = (&args[0], &args[1]) else {
        return Err(EvalError::no_such_overload());
    };
    Ok(Value::Bool(match name {
        "contains" => text.contains(&**part),
        "endsWith" => text.ends_with(&**part),
        _ => text.starts_with(&**part),
    }))
}

fn out_of_range<'a>(index: i64) -> Result<'a> {
    Err(EvalError::new(format!("index out of range: {index}")))
}

fn char_at<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::String(text), Value::Int(index)] = args else {
        return super::no_overload(name, args);
    };
    let Ok(at) = usize::try_from(*index) else {
        return out_of_range(*index);
    };
    match text.chars().nth(at) {
        Some(c) => Ok(Value::text(c.to_string())),
        None if at == text.chars().count() => Ok(Value::text("")),
        None => out_of_range(*index),
    }
}

fn index_of<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        [Value::List(list), item] => return Ok(super::lists::index_of(name, list, item)),
        _ => return super::no_overload(name, args),
    };
    let count = text.chars().count();
    let last = name == "lastIndexOf";
    let offset = match offset {
        Some(offset) => match usize::try_from(offset) {
            Ok(offset) => offset,
            Err(_) => return out_of_range(offset),
        },
        None if last && part.is_empty() => count,
        None if last => count.saturating_sub(1),
        None => 0,
    };
    let found = if part.is_empty() {
        Some(offset.min(count))
    } else if offset >= count {
        None
    } else if last {
        // The last one that begins at the offset or before it.
        let end = byte_at(text, offset + part.chars().count());
        text[..end].rfind(&**part).map(|at| text[..at].chars().count())
    } else {
        let start = byte_at(text, offset);
        text[start..]
            .find(&**part)
            .map(|at| offset + text[start..start + at].chars().count())
    };
    Ok(Value::Int(
        found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)),
    ))
}

/// Where a character begins.
fn byte_at(text: &str, character: usize) -> usize {
    text.char_indices()
        .nth(character)
        .map_or(text.len(), |(at, _)| at)
}

fn replace<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (text, old, new, max) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, None),
        [
            Value::String(text),
            Value::String(old),
            Value::String(new),
            Value::Int(max),
        ] => (text, old, new, usize::try_from(*max).ok()),
        _ => return super::no_overload(name, args),
    };
    let count = text.matches(&**old).count().min(max.unwrap_or(usize::MAX));
    if count.saturating_mul(new.len()).saturating_add(text.len()) > LONGEST {
        return Err(EvalError::cost_limit());
    }
    Ok(Value::text(match max {
        Some(max) => text.replacen(&**old, new, max),
        None => text.replace(&**old, new),
    }))
}

fn split<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (text, separator, max) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(max)] => (text, separator, *max),
        _ => return super::no_overload(name, args),
    };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    if max == 0 {
        return Ok(Value::list(Vec::new()));
    }
    if separator.is_empty() {
        let mut parts: Vec<String> = Vec::new();
        for (count, (at, c)) in text.char_indices().enumerate() {
            if count + 1 == max {
                parts.push(text[at..].to_owned());
                break;
            }
            parts.push(c.to_string());
        }
        return Ok(Value::texts(parts));
    }
    Ok(Value::texts(text.splitn(max, &**separator)))
}

fn substring<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return super::no_overload(name, args),
    };
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(end) = end
        && start > end
    {
        return Err(EvalError::new(format!(
            "invalid substring range. start: {start}, end: {end}"
        )));
    }
    for index in std::iter::once(start).chain(end) {
        if !(0..=count).contains(&index) {
            return out_of_range(index);
        }
    }
    let at = |index: i64| byte_at(text, usize::try_from(index).unwrap_or(usize::MAX));
    Ok(Value::text(&text[at(start)..end.map_or(text.len(), at)]))
}

fn join<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return super::no_overload(name, args),
    };
    let mut joined = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => return Err(EvalError::new(format!("join: invalid input: {other}"))),
        }
        if joined.len() > LONGEST {
            return Err(EvalError::cost_limit());
        }
    }
    Ok(Value::text(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
