//! Expressions that select devices.

use std::sync::{Arc, LazyLock};

use k3_cel::{Decl, Environment, ObjectDecl, Opaque, Program, Shape, Type};

use crate::{
    field::{Error, Path},
    rules::Errors,
};

const LONGEST_DOMAIN: u64 = 63;
const LONGEST_NAME: u64 = 32;
const LONGEST_DRIVER: u64 = 63;
const LONGEST_VALUE: u64 = 64;
const MAX_ENTRIES: u64 = 32;
/// What an expression may cost at most.
const MOST: u64 = 1_000_000;

/// What expressions speak of: a device, its attributes and capacities by domain and name.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let device = ObjectDecl::new("kubernetes.DRADevice")
        .field("driver", Decl::new(Shape::String, LONGEST_DRIVER))
        .field("allowMultipleAllocations", Decl::new(Shape::Bool, 1))
        .field("attributes", by_name(Decl::new(Shape::Dyn, LONGEST_VALUE)))
        .field("capacity", by_name(Shape::Opaque(Opaque::Quantity).into()));
    Environment::new()
        .variable("device", Decl::object(device))
        .with_bindings()
});

/// A map by domain and name.
fn by_name(values: Decl) -> Decl {
    let map = |key: u64, values: Decl| {
        let keys = Decl::new(Shape::String, key);
        Decl::new(Shape::Map(Arc::new(keys), Arc::new(values)), MAX_ENTRIES)
    };
    map(LONGEST_DOMAIN, map(LONGEST_NAME, values))
}

/// What is wrong with an expression.
pub(super) fn judge(text: &str, at: &Path<'_>, errors: &mut Errors) {
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
    if program.estimate().max > MOST {
        errors.push(Error::forbidden(at, "too complex, exceeds cost limit"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut errors = Errors::new();
        judge(text, &Path::new("expression"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_expression_speaks_of_a_device_and_says_whether_it_is_meant() {
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
    fn what_could_take_too_long_is_refused() {
        let wide = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b))))";
        assert_eq!(
            messages(wide),
            ["expression: Forbidden: too complex, exceeds cost limit"]
        );
    }
}
