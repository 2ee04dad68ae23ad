//! Places in a document (RFC 6901).

use std::io;

use serde_json::{Map, Value};

/// The object or list that holds a place, and the name of the place in it.
pub(super) enum Place<'d> {
    Field(&'d mut Map<String, Value>, String),
    Item(&'d mut Vec<Value>, String),
}

/// No object or item holds the place.
pub(super) struct Nowhere;

// --- Place ---

impl<'d> Place<'d> {
    /// `None` if nothing there can hold it.
    pub(super) fn find(document: &'d mut Value, path: &str) -> Option<Self> {
        let (parents, name) = split(path)?;
        let mut holder = document;
        for part in parents {
            holder = match holder {
                Value::Object(map) => map.get_mut(&unescape(part))?,
                Value::Array(list) => {
                    let at = index(&unescape(part), list.len())?;
                    &mut list[at]
                }
                _ => return None,
            };
        }
        match holder {
            Value::Object(map) => Some(Place::Field(map, unescape(name))),
            Value::Array(list) => Some(Place::Item(list, unescape(name))),
            _ => None,
        }
    }
}

/// The value at a place; `None` if its object has no such field.
pub(super) fn get<'d>(document: &'d Value, path: &str) -> Result<Option<&'d Value>, Nowhere> {
    let (parents, name) = split(path).ok_or(Nowhere)?;
    let mut holder = document;
    for part in parents {
        holder = child(holder, part)?.ok_or(Nowhere)?;
    }
    child(holder, name)
}

/// The place an index means in a list of some places. It may count from the end.
pub(super) fn index(text: &str, places: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    let places = i64::try_from(places).ok()?;
    let number = if number < 0 { number + places } else { number };
    if (0..places).contains(&number) {
        usize::try_from(number).ok()
    } else {
        None
    }
}

/// How many bytes a value takes as text.
pub(super) fn json_length(value: &Value) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("counting bytes succeeds");
    counter.0
}

fn child<'d>(holder: &'d Value, part: &str) -> Result<Option<&'d Value>, Nowhere> {
    match holder {
        Value::Object(map) => Ok(map.get(&unescape(part))),
        Value::Array(list) => index(&unescape(part), list.len())
            .map(|at| list.get(at))
            .ok_or(Nowhere),
        _ => Err(Nowhere),
    }
}

/// All names but the last, and the last. What stands before the first slash does not count.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, &str)> {
    let (parents, last) = path.rsplit_once('/')?;
    Some((parents.split('/').skip(1), last))
}

fn unescape(part: &str) -> String {
    // In this order, or `~01` would become a slash.
    if part.contains('~') {
        part.replace("~1", "/").replace("~0", "~")
    } else {
        part.to_owned()
    }
}

struct Counter(usize);

// --- Counter ---

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
