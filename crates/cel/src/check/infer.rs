//! What unknown types turn out to be.

// upstream: vendor/github.com/google/cel-go/checker/types.go internalIsAssignable, isValidTypeSubstitution, substitute

use std::{collections::HashMap, sync::Arc};

use crate::types::Type;

/// What is known of unknown types.
#[derive(Clone, Debug, Default)]
pub(super) struct InferredTypes {
    types: HashMap<u32, Type>,
}

impl InferredTypes {
    /// Whether one type can be given where another is wanted; what that implies for type parameters is kept.
    pub(super) fn assign(&mut self, wanted: &Type, given: &Type) -> bool {
        self.assign_all(std::slice::from_ref(wanted), std::slice::from_ref(given))
    }

    /// The same for several at once: what is learnt is kept only if all can be given.
    pub(super) fn assign_all(&mut self, wanted: &[Type], given: &[Type]) -> bool {
        if wanted.len() != given.len() {
            return false;
        }
        let mut undo = Vec::new();
        let fits = wanted
            .iter()
            .zip(given)
            .all(|(wanted, given)| self.fits(wanted, given, &mut undo));
        if !fits {
            for (param, before) in undo.into_iter().rev() {
                match before {
                    Some(ty) => self.types.insert(param, ty),
                    None => self.types.remove(&param),
                };
            }
        }
        fits
    }

    fn fits(&mut self, a: &Type, b: &Type, undo: &mut InferenceUndo) -> bool {
        if let Type::Param(param) = b {
            match self.learn(*param, b, a, undo) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(param) = a {
            return self.learn(*param, a, b, undo).0;
        }
        match (a, b) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) | (Type::Type(_), Type::Type(_)) => {
                true
            }
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b, undo),
            (Type::Map(a, b), Type::Map(c, d)) => self.fits(a, c, undo) && self.fits(b, d, undo),
            _ => a == b,
        }
    }

    /// Whether an unknown type can be this one, and whether it is known to be something already.
    fn learn(&mut self, param: u32, unknown: &Type, ty: &Type, undo: &mut InferenceUndo) -> (bool, bool) {
        if ty == unknown {
            return (true, true);
        }
        if let Some(before) = self.types.get(&param).cloned() {
            if *ty == before {
                return (true, true);
            }
            if !self.fits(ty, &before, undo) {
                return (false, true);
            }
            let general = most_general(ty, &before).clone();
            if !self.mentions(param, &general) {
                self.set(param, general, undo);
            }
            return (true, true);
        }
        if self.mentions(param, ty) {
            return (false, false);
        }
        self.set(param, ty.clone(), undo);
        (true, false)
    }

    fn set(&mut self, param: u32, ty: Type, undo: &mut InferenceUndo) {
        undo.push((param, self.types.insert(param, ty)));
    }

    /// Whether an unknown type is part of another.
    fn mentions(&self, param: u32, ty: &Type) -> bool {
        match ty {
            Type::Param(other) => {
                *other == param || self.types.get(other).is_some_and(|ty| self.mentions(param, ty))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => {
                self.mentions(param, inner)
            }
            Type::Map(keys, values) => self.mentions(param, keys) || self.mentions(param, values),
            _ => false,
        }
    }

    /// A type with all that is known put in. What is still unknown stays so.
    pub(super) fn resolve(&self, ty: &Type) -> Type {
        self.replace(ty, Type::clone)
    }

    /// A type with all that is known put in. What is still unknown is anything.
    pub(super) fn resolve_to_dyn(&self, ty: &Type) -> Type {
        self.replace(ty, |_| Type::Dyn)
    }

    fn replace(&self, ty: &Type, of_unknown: fn(&Type) -> Type) -> Type {
        let inner = |ty: &Arc<Type>| Arc::new(self.replace(ty, of_unknown));
        match ty {
            Type::Param(param) => match self.types.get(param) {
                Some(known) => self.replace(known, of_unknown),
                None => of_unknown(ty),
            },
            Type::List(items) => Type::List(inner(items)),
            Type::Optional(value) => Type::Optional(inner(value)),
            Type::Type(Some(of)) => Type::Type(Some(inner(of))),
            Type::Map(keys, values) => Type::Map(inner(keys), inner(values)),
            other => other.clone(),
        }
    }
}

/// What was known before, to be put back.
type InferenceUndo = Vec<(u32, Option<Type>)>;

fn nullable(ty: &Type) -> bool {
    ty.is_struct()
        || matches!(
            ty,
            Type::Null | Type::Opaque(_) | Type::Optional(_) | Type::Timestamp | Type::Duration
        )
}

/// The less special of two types that fit.
pub(super) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_general(a, b) { a } else { b }
}

fn is_general(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) | (Type::Type(_), Type::Type(_)) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_general(a, b),
        (Type::Map(a, b), Type::Map(c, d)) => is_general(a, c) && is_general(b, d),
        _ => a == b,
    }
}

/// An overload's type with its unknown types renumbered.
pub(super) fn instantiate(ty: &Type, first: u32) -> Type {
    let inner = |ty: &Arc<Type>| Arc::new(instantiate(ty, first));
    match ty {
        Type::Param(param) => Type::Param(first + param),
        Type::List(items) => Type::List(inner(items)),
        Type::Optional(value) => Type::Optional(inner(value)),
        Type::Type(Some(of)) => Type::Type(Some(inner(of))),
        Type::Map(keys, values) => Type::Map(inner(keys), inner(values)),
        other => other.clone(),
    }
}
