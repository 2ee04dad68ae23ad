//! The expressions in the rules of a schema: whether they compile, and what asking them can cost.

use serde_json::Value;

use super::{printed, schema, stored::Stored};
use crate::{
    bound::{self, MOST_PATH},
    custom::{
        Node,
        expression::{Compiled, Scope, declare},
    },
    field::{Error, Path, Shown},
    rules::{Errors, Tree},
};

/// What one expression may cost for one object.
const MOST: u64 = 10_000_000;
/// What all expressions of a schema may cost for one object.
const MAX_IN_ALL: u64 = 100_000_000;
/// How many of those that cost most are told.
const TOLD: usize = 4;

const RULES: &str = "x-kubernetes-validations";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Whether the cost of single expressions is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Costs {
    /// It is.
    Judged,
    /// The schema is as it was: what was accepted stays so.
    Unchanged,
}

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Whether it is that of a whole object.
    whole: bool,
    /// How often a value of it can be in an object; `None` if there is no bound but the size of a request.
    most: Option<u64>,
    /// The place of the list above in which old and new items cannot be told apart, or of the object that is one value.
    uncorrelated: Option<&'p str>,
}

struct Judging<'e> {
    costs: Costs,
    /// What is wrong with the schemas otherwise: rules there are not compiled.
    known: &'e [Error],
    messages: Errors,
    total: u64,
    /// Those that cost most, with their places.
    expensive: Vec<(u64, String)>,
}

/// What is wrong with the expressions of a schema. `known`: what is wrong with it otherwise.
pub(super) fn validate(schema: &Value, costs: Costs, known: &[Error], at: &Path<'_>) -> Errors {
    if !schema::any(schema, &mut |one| !one.items(RULES).is_empty()) {
        return Errors::new();
    }
    let mut judging = Judging {
        costs,
        known,
        messages: Errors::new(),
        total: 0,
        expensive: Vec::new(),
    };
    let field_path = Place {
        whole: true,
        most: Some(1),
        uncorrelated: None,
    };
    judging.level(schema, field_path, at);
    judging.sum_up(at);
    judging.messages
}

impl Judging<'_> {
    fn level(&mut self, schema: &Value, field_path: Place<'_>, at: &Path<'_>) {
        let inside = |one: &Value| Place {
            whole: one.flag("x-kubernetes-embedded-resource"),
            most: field_path
                .most
                .zip(factor(schema))
                .map(|(most, factor)| times(most, factor)),
            uncorrelated: field_path.uncorrelated,
        };
        let additional = schema.at("additionalProperties");
        if additional.is_object() {
            self.level(additional, inside(additional), &at.child("additionalProperties"));
        }
        let here = bound::display(at, MOST_PATH);
        let properties = at.child("properties");
        let is_atomic = schema.has(MAP_TYPE) && schema.text(MAP_TYPE) != "granular";
        for (name, property) in schema.entries("properties") {
            let mut inside = inside(property);
            if is_atomic {
                inside.uncorrelated = inside.uncorrelated.or(Some(&here));
            }
            self.level(property, inside, &properties.key(name));
        }
        if let Some(items) = schema::items(schema) {
            let mut inside = inside(items);
            if schema.text("x-kubernetes-list-type") != "map" {
                inside.uncorrelated = inside.uncorrelated.or(Some(&here));
            }
            self.level(items, inside, &at.child("items"));
        }
        let is_good = || !self.known.iter().any(|error| error.field.starts_with(&here));
        if !schema.items(RULES).is_empty() && is_good() {
            self.rules(schema, field_path, at);
        }
    }

    fn rules(&mut self, schema: &Value, field_path: Place<'_>, at: &Path<'_>) {
        let list = at.child(RULES);
        let node = Node::read(schema, false);
        let Some(declared) = declare(&node, field_path.whole) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable \
                to convert structural schema to CEL declarations";
            self.messages.push(Error::internal(&list, detail));
            return;
        };
        let often = field_path.most.unwrap_or_else(|| declared.most());
        let scope = Scope::new(declared.decl);
        for (index, (rule, given)) in node.rules().iter().zip(schema.items(RULES)).enumerate() {
            let at = list.index(index);
            let compiled = scope.compile(rule);
            self.rule(given, &compiled, often, &at);
            if compiled.uses_old {
                if let Some(within) = field_path.uncorrelated {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    self.messages
                        .push(Error::invalid(&at.child("rule"), given.text("rule"), detail));
                }
            } else if given.has("optionalOldSelf") {
                let detail = "may not be set if oldSelf is not used in rule";
                let field_path = at.child("optionalOldSelf");
                self.messages
                    .push(Error::invalid(&field_path, given.at("optionalOldSelf"), detail));
            }
        }
    }

    fn rule(&mut self, given: &Value, compiled: &Compiled, often: u64, at: &Path<'_>) {
        let shown = || Shown::Printed(printed::rule(given));
        let field_path = at.child("rule");
        match &compiled.program {
            None => {}
            Some(Ok(program)) => self.cost(
                "estimated rule cost",
                times(program.estimate().max, often),
                &field_path,
            ),
            Some(Err(msg)) => self.messages.push(Error::invalid(&field_path, shown(), msg)),
        }
        let field_path = at.child("messageExpression");
        match &compiled.message {
            None => {}
            Some(Ok(program)) => {
                self.cost(
                    "estimated messageExpression cost",
                    program.estimate().max,
                    &field_path,
                );
            }
            Some(Err(msg)) => self.messages.push(Error::invalid(&field_path, shown(), msg)),
        }
    }

    fn cost(&mut self, what: &str, cost: u64, at: &Path<'_>) {
        if self.costs == Costs::Judged && cost > MOST {
            self.messages
                .push(Error::forbidden(at, exceeds(what, cost, MOST)));
        }
        self.total = self.total.saturating_add(cost);
        // What is less than a hundredth is no help to who looks for savings.
        if cost >= MAX_IN_ALL / 100 {
            self.expensive.push((cost, at.to_string()));
        }
    }

    fn sum_up(&mut self, at: &Path<'_>) {
        if self.total <= MAX_IN_ALL {
            return;
        }
        self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, field_path) in self.expensive.iter().take(TOLD) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.messages
                .push(Error::forbidden(&Path::new(field_path), detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.messages
            .push(Error::forbidden(at, exceeds(what, self.total, MAX_IN_ALL)));
    }
}

// --- Costs ---

impl Costs {
    /// Whether the schema of a version is as it was in the old definition.
    pub(super) fn of(holder: &Value, stored: &Stored<'_>, version: &str) -> Costs {
        match stored.version(version) {
            Some(before) if before.at("schema") == holder => Costs::Unchanged,
            _ => Costs::Judged,
        }
    }
}

/// How many more values there can be of the schemas inside; `None` if there is no bound.
fn factor(schema: &Value) -> Option<u64> {
    let count = |name: &str| {
        schema
            .int(name)
            .map(|count| u64::try_from(count).unwrap_or_default())
    };
    match schema.text("type") {
        "object" if schema.has("additionalProperties") => count("maxProperties"),
        "array" => count("maxItems"),
        _ => Some(1),
    }
}

fn times(cost: u64, often: u64) -> u64 {
    cost.saturating_mul(often)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the number is formatted with one digit"
)]
fn exceeds(what: &str, cost: u64, most: u64) -> String {
    let factor = cost as f64 / most as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
