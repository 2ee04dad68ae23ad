//! CEL expressions that select devices.
// upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go CompileCELExpression

use std::sync::{Arc, LazyLock};

use k3_cel::{DeclType, Environment, ObjectDeclType, OpaqueType, Program, Shape, Type};

use crate::{
    field::{Error, Path},
    strategy::ErrorList,
};

const MAX_DOMAIN_LENGTH: u64 = 63;
const MAX_NAME_LENGTH: u64 = 32;
const MAX_DRIVER_LENGTH: u64 = 63;
const MAX_VALUE_LENGTH: u64 = 64;
const MAX_ENTRIES: u64 = 32;
/// Cost limit of an expression.
const COST_LIMIT: u64 = 1_000_000;

/// The CEL environment: a device with its attributes and capacities by domain and name.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let device = ObjectDeclType::new("kubernetes.DRADevice")
        .field("driver", DeclType::new(Shape::String, MAX_DRIVER_LENGTH))
        .field("allowMultipleAllocations", DeclType::new(Shape::Bool, 1))
        .field(
            "attributes",
            map_by_domain_and_name(DeclType::new(Shape::Dyn, MAX_VALUE_LENGTH)),
        )
        .field(
            "capacity",
            map_by_domain_and_name(Shape::Opaque(OpaqueType::Quantity).into()),
        );
    Environment::new()
        .variable("device", DeclType::object(device))
        .with_bindings()
});

fn map_by_domain_and_name(values: DeclType) -> DeclType {
    let map = |key: u64, values: DeclType| {
        let keys = DeclType::new(Shape::String, key);
        DeclType::new(Shape::Map(Arc::new(keys), Arc::new(values)), MAX_ENTRIES)
    };
    map(MAX_DOMAIN_LENGTH, map(MAX_NAME_LENGTH, values))
}

// upstream: pkg/apis/resource/validation/validation.go validateCELExpression
pub(super) fn validate_cel_expression(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let program = match Program::compile(&ENVIRONMENT, text) {
        Ok(program) => program,
        Err(error) if error.is_instantiation() => {
            errors.push(Error::internal(
                at,
                format!("program instantiation failed: {error}"),
            ));
            return;
        }
        Err(error) => {
            errors.push(Error::invalid(at, text, format!("compilation failed: {error}")));
            return;
        }
    };
    match program.result_type() {
        Type::Bool | Type::Dyn => {}
        other => {
            let detail = format!("must evaluate to bool or the unknown type, not {other}");
            errors.push(Error::invalid(at, text, detail));
            return;
        }
    }
    if program.estimate().max > COST_LIMIT {
        errors.push(Error::forbidden(at, "too complex, exceeds cost limit"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_cel_expression(text, &Path::new("expression"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requires_boolean_expressions_over_a_device() {
        for fine in [
            "device.driver == 'a' && !device.allowMultipleAllocations",
            "device.attributes['d'].model == 'x' && device.capacity['d'].memory.isGreaterThan(quantity('1Gi'))",
            "cel.bind(a, device.attributes['d'], a.x.startsWith('y') && a.z > 5)",
            "device.attributes['d'].flag",
        ] {
            assert_eq!(messages(fine), Vec::<String>::new(), "{fine}");
        }
        assert_eq!(
            messages("1"),
            ["expression: Invalid value: \"1\": must evaluate to bool or the unknown type, not int"]
        );
        assert!(messages("device.nope")[0].contains("undefined field 'nope'"));
    }

    #[test]
    fn rejects_expressions_above_the_cost_limit() {
        let wide = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b))))";
        assert_eq!(
            messages(wide),
            ["expression: Forbidden: too complex, exceeds cost limit"]
        );
    }
}
