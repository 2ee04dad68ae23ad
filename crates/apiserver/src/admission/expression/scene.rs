//! What the variables of expressions are for one request.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use k3_api::{
    admission::{NAMESPACE, REQUEST},
    status::Status,
    strategy::Tree,
};
use k3_cel::{Bindings, DeclType, ResourceCheck, Shape, Variables};
use serde_json::Value;

use super::{
    super::subject::{Form, Subject},
    authority::Authority,
};
use crate::authz::Authorizer;

/// A request in a form, for expressions.
pub(in crate::admission) struct Scene<'o> {
    /// `null` if there is none.
    object: Cow<'o, Value>,
    /// `null` if there is none.
    old: Cow<'o, Value>,
    request: Value,
    asked: ResourceCheck,
    authority: Arc<Authority>,
}

/// What an expression sees beside the request.
#[derive(Clone, Copy)]
pub(in crate::admission) struct Sight<'s> {
    /// The parameters; `None` if there are none.
    pub params: Option<&'s Value>,
    /// The namespace; `None` if it is not to be seen, or there is none.
    pub namespace: Option<&'s Value>,
    /// Whether it may ask what is allowed.
    pub authorizer: bool,
}

// --- Scene ---

impl<'o> Scene<'o> {
    /// A request in a form, with its states in that form.
    pub(in crate::admission) fn new(
        subject: &Subject<'_>,
        form: &Form,
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
        Ok(Scene {
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
            authority: Arc::new(Authority {
                authorizer: Arc::clone(authorizer),
                user: subject.ask.user.clone(),
            }),
        })
    }

    /// The variables, as one expression sees them.
    pub(in crate::admission) fn bindings<'s>(
        &'s self,
        sight: Sight<'s>,
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
