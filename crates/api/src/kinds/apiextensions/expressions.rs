//! CEL validation rules of a schema (`x-kubernetes-validations`): compilation and estimated cost.

use serde_json::Value;

use super::{error_values, schema, stored_definition::StoredDefinition};
use crate::{
    custom::{
        Node, NodeRole,
        expression::{CompiledRule, ExpressionScope, declare},
    },
    field::{BadValue, Error, Path},
    limits::{self, MAX_PATH_BYTES},
    strategy::{ErrorList, Tree},
};

/// StaticEstimatedCostLimit: the estimated CEL cost limit of one expression for one object.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go ObserveExpressionCost
const EXPRESSION_COST_LIMIT: u64 = 10_000_000;
/// Cost limit of all expressions of a schema for one object.
const TOTAL_COST_LIMIT: u64 = 100_000_000;
/// Number of the most expensive expressions that are reported.
const MAX_REPORTED: usize = 4;

const RULES: &str = "x-kubernetes-validations";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Whether the cost of single expressions is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostCheck {
    /// It is.
    Checked,
    /// The schema is unchanged: what was accepted remains accepted.
    Unchanged,
}

/// Position of a schema.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go CELSchemaContext
#[derive(Clone, Copy)]
struct SchemaPosition<'p> {
    /// What the schema describes.
    role: NodeRole,
    /// Maximum cardinality of its values in an object; `None` if only the request size limits it.
    max_cardinality: Option<u64>,
    /// The path of the enclosing list whose items cannot be correlated with old ones, or of the enclosing atomic object.
    uncorrelated: Option<&'p str>,
}

struct ExpressionValidation<'e> {
    costs: CostCheck,
    /// Errors of the schema so far: rules at invalid schemas are not compiled.
    known: &'e [Error],
    messages: ErrorList,
    total: u64,
    /// The most expensive expressions with their field paths.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go TotalCost, RuleCost
    expensive: Vec<(u64, String)>,
}

/// Validates the expressions of a schema. `known`: the errors of the schema so far.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
pub(super) fn validate_expressions(
    schema: &Value,
    costs: CostCheck,
    known: &[Error],
    at: &Path<'_>,
) -> ErrorList {
    if !schema::schema_has(schema, &mut |level| !level.items(RULES).is_empty()) {
        return ErrorList::new();
    }
    let mut validation = ExpressionValidation {
        costs,
        known,
        messages: ErrorList::new(),
        total: 0,
        expensive: Vec::new(),
    };
    let position = SchemaPosition {
        role: NodeRole::Resource,
        max_cardinality: Some(1),
        uncorrelated: None,
    };
    validation.validate_level(schema, position, at);
    validation.report_total(at);
    validation.messages
}

impl ExpressionValidation<'_> {
    fn validate_level(&mut self, schema: &Value, position: SchemaPosition<'_>, at: &Path<'_>) {
        let inner_position = |inner: &Value| SchemaPosition {
            role: if inner.flag("x-kubernetes-embedded-resource") {
                NodeRole::Resource
            } else {
                NodeRole::Field
            },
            max_cardinality: position
                .max_cardinality
                .zip(max_elements(schema))
                .map(|(max, factor)| multiply_with_overflow_guard(max, factor)),
            uncorrelated: position.uncorrelated,
        };
        let additional = schema.at("additionalProperties");
        if additional.is_object() {
            self.validate_level(
                additional,
                inner_position(additional),
                &at.child("additionalProperties"),
            );
        }
        let here = limits::display(at, MAX_PATH_BYTES);
        let properties = at.child("properties");
        let is_atomic = schema.has(MAP_TYPE) && schema.text(MAP_TYPE) != "granular";
        for (name, property) in schema.entries("properties") {
            let mut inner_position = inner_position(property);
            if is_atomic {
                inner_position.uncorrelated = inner_position.uncorrelated.or(Some(&here));
            }
            self.validate_level(property, inner_position, &properties.key(name));
        }
        if let Some(items) = schema::items(schema) {
            let mut inner_position = inner_position(items);
            if schema.text("x-kubernetes-list-type") != "map" {
                inner_position.uncorrelated = inner_position.uncorrelated.or(Some(&here));
            }
            self.validate_level(items, inner_position, &at.child("items"));
        }
        let is_good = || !self.known.iter().any(|error| error.field.starts_with(&here));
        if !schema.items(RULES).is_empty() && is_good() {
            self.validate_rules(schema, position, at);
        }
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
    fn validate_rules(&mut self, schema: &Value, position: SchemaPosition<'_>, at: &Path<'_>) {
        let list = at.child(RULES);
        let node = Node::read(schema);
        let Some(declared) = declare(&node, position.role) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable \
                to convert structural schema to CEL declarations";
            self.messages.push(Error::internal(&list, detail));
            return;
        };
        let cardinality = position.max_cardinality.unwrap_or_else(|| declared.max());
        let scope = ExpressionScope::new(declared.decl);
        for (index, (rule, rule_schema)) in node.rules().iter().zip(schema.items(RULES)).enumerate() {
            let at = list.index(index);
            let compiled = scope.compile(rule);
            self.validate_rule(rule_schema, &compiled, cardinality, &at);
            if compiled.uses_old {
                if let Some(within) = position.uncorrelated {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    self.messages.push(Error::invalid(
                        &at.child("rule"),
                        rule_schema.text("rule"),
                        detail,
                    ));
                }
            } else if rule_schema.has("optionalOldSelf") {
                let detail = "may not be set if oldSelf is not used in rule";
                let field_path = at.child("optionalOldSelf");
                self.messages.push(Error::invalid(
                    &field_path,
                    rule_schema.at("optionalOldSelf"),
                    detail,
                ));
            }
        }
    }

    fn validate_rule(
        &mut self,
        rule_schema: &Value,
        compiled: &CompiledRule,
        cardinality: u64,
        at: &Path<'_>,
    ) {
        let rule_value = || BadValue::Printed(error_values::rule_json(rule_schema));
        let field_path = at.child("rule");
        match &compiled.program {
            None => {}
            Some(Ok(program)) => self.add_cost(
                "estimated rule cost",
                multiply_with_overflow_guard(program.estimate().max, cardinality),
                &field_path,
            ),
            Some(Err(error)) => {
                let detail = error.to_string();
                self.messages
                    .push(Error::invalid(&field_path, rule_value(), detail));
            }
        }
        let field_path = at.child("messageExpression");
        match &compiled.message {
            None => {}
            Some(Ok(program)) => {
                self.add_cost(
                    "estimated messageExpression cost",
                    program.estimate().max,
                    &field_path,
                );
            }
            Some(Err(error)) => {
                let detail = error.to_string();
                self.messages
                    .push(Error::invalid(&field_path, rule_value(), detail));
            }
        }
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go ObserveExpressionCost
    fn add_cost(&mut self, what: &str, cost: u64, at: &Path<'_>) {
        if self.costs == CostCheck::Checked && cost > EXPRESSION_COST_LIMIT {
            self.messages.push(Error::forbidden(
                at,
                cost_error_message(what, cost, EXPRESSION_COST_LIMIT),
            ));
        }
        self.total = self.total.saturating_add(cost);
        // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go ObserveExpressionCost; below 1% it is no help to users
        if cost >= TOTAL_COST_LIMIT / 100 {
            self.expensive.push((cost, at.to_string()));
        }
    }

    fn report_total(&mut self, at: &Path<'_>) {
        if self.total <= TOTAL_COST_LIMIT {
            return;
        }
        self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, field_path) in self.expensive.iter().take(MAX_REPORTED) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.messages
                .push(Error::forbidden(&Path::new(field_path), detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.messages.push(Error::forbidden(
            at,
            cost_error_message(what, self.total, TOTAL_COST_LIMIT),
        ));
    }
}

// --- CostCheck ---

impl CostCheck {
    /// Skips costs if the schema of a version is unchanged.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go suppressExpressionCostForUnchangedSchema, findVersionsWithUnchangedSchemas
    pub(super) fn for_version(holder: &Value, stored: &StoredDefinition<'_>, version: &str) -> CostCheck {
        match stored.version(version) {
            Some(before) if before.at("schema") == holder => CostCheck::Unchanged,
            _ => CostCheck::Checked,
        }
    }
}

/// How many values the inner schemas can have per outer value; `None` if unbounded.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go extractMaxElements
fn max_elements(schema: &Value) -> Option<u64> {
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

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go multiplyWithOverflowGuard
fn multiply_with_overflow_guard(cost: u64, cardinality: u64) -> u64 {
    cost.saturating_mul(cardinality)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the number is formatted with one digit"
)]
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go getCostErrorMessage
fn cost_error_message(what: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
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
