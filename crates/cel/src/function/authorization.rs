//! Questions about what is allowed.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go Authz, AuthzSelectors

use std::sync::Arc;

use super::{Implementation, format, no_overload};
use crate::{
    error::EvalError,
    value::{Check, OpaqueValue, ResourceCheck, Result, Target, Value},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "path" | "group" | "serviceAccount" => begin,
        "resource" | "subresource" | "namespace" | "name" | "fieldSelector" | "labelSelector" => refine,
        "check" => check,
        "errored" | "error" | "allowed" | "reason" => answer,
        _ => return None,
    })
}

fn begin<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    Ok(Value::Opaque(match (name, args) {
        ("path", [Value::Opaque(OpaqueValue::Authorizer(asker)), Value::String(path)]) => {
            if path.trim().is_empty() {
                return Err(EvalError::new("path must not be empty"));
            }
            OpaqueValue::PathCheck(asker.clone(), (**path).into())
        }
        (
            "group",
            [
                Value::Opaque(OpaqueValue::Authorizer(asker)),
                Value::String(group),
            ],
        ) => OpaqueValue::GroupCheck(asker.clone(), (**group).into()),
        (
            "serviceAccount",
            [
                Value::Opaque(OpaqueValue::Authorizer(asker)),
                Value::String(namespace),
                Value::String(name),
            ],
        ) => {
            if !format::is_subdomain(name) {
                return Err(EvalError::new("Invalid service account name"));
            }
            if !format::is_label(namespace) {
                return Err(EvalError::new("Invalid service account namespace"));
            }
            let mut asker = asker.clone();
            asker.service_account = Some(Arc::new((namespace.to_string(), name.to_string())));
            OpaqueValue::Authorizer(asker)
        }
        _ => return no_overload(name, args),
    }))
}

fn refine<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (asker, mut check, text) = match args {
        [
            Value::Opaque(OpaqueValue::GroupCheck(asker, group)),
            Value::String(resource),
        ] if name == "resource" => {
            if resource.trim().is_empty() {
                return Err(EvalError::new("resource must not be empty"));
            }
            (
                asker,
                ResourceCheck {
                    group: group.to_string(),
                    ..ResourceCheck::default()
                },
                resource,
            )
        }
        [
            Value::Opaque(OpaqueValue::ResourceCheck(asker, check)),
            Value::String(text),
        ] if name != "resource" => (asker, ResourceCheck::clone(check), text),
        _ => return no_overload(name, args),
    };
    let field = match name {
        "resource" => &mut check.resource,
        "subresource" => &mut check.subresource,
        "namespace" => &mut check.namespace,
        "name" => &mut check.name,
        "fieldSelector" => &mut check.field_selector,
        _ => &mut check.label_selector,
    };
    *field = text.to_string();
    Ok(Value::Opaque(OpaqueValue::ResourceCheck(
        asker.clone(),
        Arc::new(check),
    )))
}

fn check<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (asker, target, verb) = match args {
        [
            Value::Opaque(OpaqueValue::PathCheck(asker, path)),
            Value::String(verb),
        ] => (asker, Target::Path(path), verb),
        [
            Value::Opaque(OpaqueValue::ResourceCheck(asker, check)),
            Value::String(verb),
        ] => (asker, Target::Resource(check), verb),
        _ => return no_overload(name, args),
    };
    let service_account = asker
        .service_account
        .as_deref()
        .map(|(namespace, name)| (namespace.as_str(), name.as_str()));
    let decision = asker.authorizer.authorize(&Check {
        service_account,
        verb,
        target,
    });
    Ok(Value::Opaque(OpaqueValue::Decision(Arc::new(decision))))
}

fn answer<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Decision(decision))] = args else {
        return no_overload(name, args);
    };
    Ok(match name {
        "errored" => Value::Bool(decision.error.is_some()),
        // upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go decisionError; without an error it is empty.
        "error" => Value::text(decision.error.as_deref().unwrap_or("")),
        "allowed" => Value::Bool(decision.allowed),
        _ => Value::text(decision.reason.as_str()),
    })
}
