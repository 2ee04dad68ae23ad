//! Table columns of a kind (`kubectl get`).

use std::borrow::Cow;

use k3_duration::human_duration;
use serde_json::{Value, json};

use super::Tree;
use crate::time::Time;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: Cow<'static, str>,
    /// The type of its cells: `string`, `integer`, `boolean`, `number`, `date`.
    pub kind: Cow<'static, str>,
    /// `name` for the names of the objects, else mostly empty.
    pub format: Cow<'static, str>,
    /// 0: always shown; 1: when the user asks for more.
    pub priority: i32,
    /// Its content.
    pub description: ColumnDescription,
}

/// What a column shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnDescription {
    /// This text.
    Text(Cow<'static, str>),
    /// The description of this field of the objects, as in `spec.replicas`.
    Field(&'static str),
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<Value>,
    /// What holds for the object as a whole, such as `Completed`; mostly nothing.
    pub conditions: Vec<Value>,
}

pub(super) const NAME_AND_CREATION: &[Column] = &[
    Column::name(),
    Column::new("Created At", "date", ColumnDescription::Field(CREATION)),
];

pub(super) fn name_and_creation(object: &Value) -> Row {
    let metadata = object.at("metadata");
    Row::new(vec![
        json!(metadata.text("name")),
        json!(metadata.text("creationTimestamp")),
    ])
}

/// How long ago a time was, as tables show it; `<unknown>` if there is none.
pub fn age(timestamp: &str, now: Time) -> Value {
    let text = match Time::parse(timestamp) {
        Ok(then) => human_duration(now.since(then)),
        Err(_) => "<unknown>".to_owned(),
    };
    Value::String(text)
}

/// A row that begins with the name of the object and ends with its age.
pub fn named_row(object: &Value, now: Time, between: impl IntoIterator<Item = Value>) -> Row {
    let metadata = object.at("metadata");
    let mut cells = vec![json!(metadata.text("name"))];
    cells.extend(between);
    cells.push(age(metadata.text("creationTimestamp"), now));
    Row::new(cells)
}

// --- ColumnDescription ---

impl ColumnDescription {
    /// This text.
    pub const fn text(text: &'static str) -> Self {
        ColumnDescription::Text(Cow::Borrowed(text))
    }
}

// --- Column ---

impl Column {
    /// A column that is always shown.
    pub const fn new(name: &'static str, kind: &'static str, description: ColumnDescription) -> Self {
        Column {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(""),
            priority: 0,
            description,
        }
    }

    /// A column of text with the description of a field.
    pub const fn field(name: &'static str, field: &'static str) -> Self {
        Self::new(name, "string", ColumnDescription::Field(field))
    }

    /// A column of text with its own description.
    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "string", ColumnDescription::text(description))
    }

    /// The column of the ages.
    pub const fn age() -> Self {
        Self::field("Age", CREATION)
    }

    /// The column of the names.
    pub const fn name() -> Self {
        Self::names("Name", "metadata.name")
    }

    /// A column of names with the description of a field.
    pub const fn names(name: &'static str, field: &'static str) -> Self {
        Column {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed("string"),
            format: Cow::Borrowed("name"),
            priority: 0,
            description: ColumnDescription::Field(field),
        }
    }

    #[must_use]
    /// The same column, shown only when the user asks for more.
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const CREATION: &str = "metadata.creationTimestamp";

// --- Row ---

impl Row {
    /// A row without conditions.
    pub fn new(cells: Vec<Value>) -> Self {
        Row {
            cells,
            conditions: Vec::new(),
        }
    }
}
