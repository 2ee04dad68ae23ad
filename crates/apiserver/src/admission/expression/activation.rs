//! Values of the CEL variables for one request (`object`, `oldObject`, `request`, `params`, ...).

use std::{borrow::Cow, rc::Rc, sync::Arc};

use k3_api::{
    admission::{NAMESPACE, REQUEST},
    status::Status,
    strategy::Tree,
};
use k3_cel::{Bindings, DeclType, ResourceCheck, Shape, Variables};
use serde_json::Value;

use super::{
    super::versioned_attributes::{VersionedAttributes, VersionedResource},
    cel_authorizer::CelAuthorizer,
};
use crate::authz::Authorizer;

/// A request in a form, for expressions.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/activation.go newActivation, evaluationActivation
pub(in crate::admission) struct EvaluationActivation<'o> {
    /// `null` if there is none.
    object: Cow<'o, Value>,
    /// `null` if there is none.
    old: Cow<'o, Value>,
    request: Value,
    asked: ResourceCheck,
    authority: Arc<CelAuthorizer>,
}

/// What an expression sees beside the request.
#[derive(Clone, Copy)]
pub(in crate::admission) struct OptionalVariables<'s> {
    /// The parameters; `None` if there are none.
    pub params: Option<&'s Value>,
    /// The namespace; `None` if it is not to be seen, or there is none.
    pub namespace: Option<&'s Value>,
    /// Whether it may ask what is allowed.
    pub authorizer: bool,
}

// --- EvaluationActivation ---

impl<'o> EvaluationActivation<'o> {
    /// A request in a form, with its states in that form.
    pub(in crate::admission) fn new(
        subject: &VersionedAttributes<'_>,
        form: &VersionedResource,
        new: Option<&'o Value>,
        old: Option<&'o Value>,
        authorizer: &Arc<Authorizer>,
    ) -> Result<Self, Status> {
        let view = |state: Option<&'o Value>| match state {
            Some(state) => subject.view(state, form),
            None => Ok(Cow::Owned(Value::Null)),
        };
        let request = subject.request(form);
        let whole = &subject.form.whole;
        Ok(EvaluationActivation {
            object: view(new)?,
            old: view(old)?,
            request,
            asked: ResourceCheck {
                group: whole.group.to_string(),
                resource: whole.plural.to_string(),
                subresource: subject.subresource.to_owned(),
                namespace: subject.namespace.clone(),
                name: subject.name.clone(),
                ..ResourceCheck::default()
            },
            authority: Arc::new(CelAuthorizer {
                authorizer: Arc::clone(authorizer),
                user: subject.ctx.user.clone(),
            }),
        })
    }

    /// The variables, as one expression sees them.
    pub(in crate::admission) fn bindings<'s>(
        &'s self,
        sight: OptionalVariables<'s>,
        variables: &Rc<Variables<'s>>,
    ) -> Bindings<'s> {
        let any = DeclType::from(Shape::Dyn);
        let mut bindings = Bindings::new()
            .json("object", &self.object, &any)
            .json("oldObject", &self.old, &any)
            .json("request", &self.request, &REQUEST)
            .lazy("variables", Rc::clone(variables) as Rc<_>);
        bindings = match sight.params {
            Some(params) => bindings.json("params", params, &any),
            None => bindings.value("params", k3_cel::Value::Null),
        };
        bindings = match sight.namespace {
            Some(namespace) if namespace.has("metadata") => {
                bindings.json("namespaceObject", namespace, &NAMESPACE)
            }
            _ => bindings.value("namespaceObject", k3_cel::Value::Null),
        };
        if sight.authorizer {
            let authority: Arc<dyn k3_cel::Authorizer> = Arc::clone(&self.authority) as Arc<_>;
            bindings = bindings
                .value("authorizer", k3_cel::Value::authorizer(Arc::clone(&authority)))
                .value(
                    "authorizer.requestResource",
                    k3_cel::Value::resource_check(authority, self.asked.clone()),
                );
        }
        bindings
    }
}
