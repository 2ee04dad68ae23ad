//! Lists and sets.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/lists.go isSorted, sum, min, max, indexOf, lastIndexOf

use super::{Implementation, no_overload, operators::same};
use crate::{
    error::EvalError,
    value::{List, Result, Value, compare, equal, is_ordered},
};

const LONGEST_RANGE: i64 = 1_000_000;
/// Comparing each with each ends here: more would cost more than a call may.
const MAX_COMPARED: usize = 2_000;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "sets.contains" => |name, args| sets(name, args, |a, b| all_in(b, a)),
        "sets.equivalent" => |name, args| sets(name, args, |a, b| Ok(all_in(b, a)? && all_in(a, b)?)),
        "sets.intersects" => |name, args| sets(name, args, any_in),
        "slice" => slice,
        "flatten" => flatten,
        "sort" | "@sortByAssociatedKeys" => sort,
        "lists.range" => range,
        "reverse" => reverse,
        "distinct" => distinct,
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" | "max" => extreme,
        _ => return None,
    })
}

/// Whether a value is one of a list's. What cannot be compared is an error only if no other is equal.
pub(super) fn contains<'a>(list: &List<'a>, value: &Value<'a>) -> std::result::Result<bool, EvalError> {
    let mut error = None;
    for item in list.iter() {
        match equal(&item?, value) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(wrong) => error = error.or(Some(wrong)),
        }
    }
    error.map_or(Ok(false), Err)
}

type TestResult<'a> = std::result::Result<bool, EvalError>;

fn sets<'a>(
    name: &str,
    args: &[Value<'a>],
    test: impl Fn(&List<'a>, &List<'a>) -> TestResult<'a>,
) -> Result<'a> {
    match args {
        [Value::List(a), Value::List(b)]
            if a.len().saturating_mul(b.len()) <= MAX_COMPARED * MAX_COMPARED =>
        {
            test(a, b).map(Value::Bool)
        }
        [Value::List(_), Value::List(_)] => Err(EvalError::cost_limit()),
        _ => no_overload(name, args),
    }
}

fn all_in<'a>(items: &List<'a>, of: &List<'a>) -> TestResult<'a> {
    for item in items.iter() {
        if !contains(of, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn any_in<'a>(items: &List<'a>, of: &List<'a>) -> TestResult<'a> {
    for item in items.iter() {
        if contains(of, &item?).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_overload(name, args);
    };
    let wrong = |why: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if from > to {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return wrong(format!("list is length {}", list.len()));
    }
    Ok(Value::list(
        (from..to)
            .filter_map(|at| list.get(at))
            .collect::<std::result::Result<_, _>>()?,
    ))
}

fn flatten<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_overload(name, args),
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    // What is still to be looked at, the next at the end.
    let mut flat = Vec::new();
    let mut open: Vec<(Value<'a>, i64)> = list
        .to_vec()?
        .into_iter()
        .rev()
        .map(|item| (item, depth))
        .collect();
    while let Some((item, depth)) = open.pop() {
        match item {
            Value::List(inner) if depth > 0 => {
                open.extend(inner.to_vec()?.into_iter().rev().map(|item| (item, depth - 1)));
            }
            other => flat.push(other),
        }
        if flat.len() + open.len() > 4_000_000 {
            return Err(EvalError::cost_limit());
        }
    }
    Ok(Value::list(flat))
}

fn sort<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (list, keys) = match args {
        [Value::List(list)] => (list, list),
        [Value::List(list), Value::List(keys)] => (list, keys),
        _ => return no_overload(name, args),
    };
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let keys = keys.to_vec()?;
    let Some(first) = keys.first() else {
        return Ok(args[0].clone());
    };
    if !is_ordered(first) {
        return Err(EvalError::new("list elements must be comparable"));
    }
    if keys.len() > 1 && keys.iter().any(|key| key.ty() != first.ty()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    let mut positions: Vec<usize> = (0..keys.len()).collect();
    positions.sort_by(|a, b| compare(&keys[*a], &keys[*b]).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(
        positions
            .into_iter()
            .filter_map(|at| list.get(at))
            .collect::<std::result::Result<_, _>>()?,
    ))
}

fn range<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match args {
        [Value::Int(size)] if *size < 0 => Err(EvalError::new(format!(
            "lists.range: size must be non-negative, got {size}"
        ))),
        [Value::Int(size)] if *size > LONGEST_RANGE => Err(EvalError::new(format!(
            "lists.range: size {size} exceeds maximum allowed ({LONGEST_RANGE})"
        ))),
        [Value::Int(size)] => Ok(Value::list((0..*size).map(Value::Int).collect())),
        _ => no_overload(name, args),
    }
}

fn reverse<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut items = list.to_vec()?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    if list.len() > MAX_COMPARED {
        return Err(EvalError::cost_limit());
    }
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !unique.iter().any(|other| same(&item, other)) {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}

fn is_sorted<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut before: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return Err(EvalError::no_such_overload());
        }
        if before.is_some_and(|before| compare(&before, &item).is_ok_and(std::cmp::Ordering::is_gt)) {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let add = super::implementation("_+_").expect("there is a sum of two");
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => add("_+_", &[total, item])?,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return Err(EvalError::no_such_overload());
        }
        let better = match &best {
            None => true,
            Some(best) if name == "min" => compare(best, &item).is_ok_and(std::cmp::Ordering::is_gt),
            Some(best) => compare(best, &item).is_ok_and(std::cmp::Ordering::is_lt),
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

/// Where a value stands in a list.
pub(super) fn index_of<'a>(name: &str, list: &List<'a>, value: &Value<'a>) -> Value<'a> {
    let is = |at: &usize| matches!(list.get(*at), Some(Ok(item)) if same(&item, value));
    let found = if name == "lastIndexOf" {
        (0..list.len()).rev().find(is)
    } else {
        (0..list.len()).find(is)
    };
    Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}
