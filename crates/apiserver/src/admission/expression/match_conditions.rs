//! `matchConditions` of webhooks and policies (KEP-3716): CEL expressions that decide whether a webhook or policy applies.

use std::rc::Rc;

use k3_api::strategy::Tree;
use k3_cel::{Environment, MATCH_CONDITIONS_COST_BUDGET, Variables};
use serde_json::Value;

use super::{
    super::failure_policy::FailurePolicy, CompiledExpression, EvaluationActivation, ExpressionError,
    OUT_OF_BUDGET, activation::OptionalVariables, joined,
};

/// Conditions: all must hold.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go Match
#[derive(Debug)]
pub(in crate::admission) struct MatchConditions {
    expressions: Vec<CompiledExpression>,
    /// With `Ignore` an error is as good as a condition that does not hold.
    failure_policy: FailurePolicy,
}

/// Why it is not known whether conditions hold.
#[derive(Debug, thiserror::Error)]
pub(in crate::admission) enum MatchConditionError {
    /// Some failed, and no other one does not hold.
    #[error("{}", joined(.0))]
    Failed(Vec<String>),
    /// There is nothing left to spend.
    #[error("{OUT_OF_BUDGET}")]
    Budget,
}

// --- MatchConditions ---

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook or a policy.
    pub(in crate::admission) fn compile(
        of: &Value,
        environment: &Environment,
        failure_policy: FailurePolicy,
    ) -> Self {
        let conditions = of.items("matchConditions").iter();
        MatchConditions {
            expressions: conditions
                .map(|condition| {
                    CompiledExpression::compile(environment, condition.text("expression"), &["bool"])
                })
                .collect(),
            failure_policy,
        }
    }

    /// Whether there are none.
    pub(in crate::admission) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all hold. One that does not outweighs one that cannot be found out.
    pub(in crate::admission) fn hold<'s>(
        &self,
        scene: &'s EvaluationActivation<'_>,
        params: Option<&'s Value>,
        variables: &Rc<Variables<'s>>,
    ) -> Result<bool, MatchConditionError> {
        let sight = OptionalVariables {
            params,
            namespace: None,
            authorizer: true,
        };
        let bindings = scene.bindings(sight, variables);
        let mut budget = MATCH_CONDITIONS_COST_BUDGET;
        let mut results = Vec::new();
        for expression in &self.expressions {
            match expression.evaluate(&bindings, variables, &mut budget) {
                Ok(value) => results.push(Ok(value.as_bool())),
                Err(ExpressionError::Failed(why)) => results.push(Err(why)),
                Err(ExpressionError::Budget) => return self.unknown(MatchConditionError::Budget),
            }
        }
        if results.contains(&Ok(Some(false))) {
            return Ok(false);
        }
        let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            return Ok(true);
        }
        self.unknown(MatchConditionError::Failed(errors))
    }

    fn unknown(&self, why: MatchConditionError) -> Result<bool, MatchConditionError> {
        match self.failure_policy {
            FailurePolicy::Ignore => Ok(false),
            FailurePolicy::Fail => Err(why),
        }
    }
}
