//! Lists, maps, messages, and loops over them.

// upstream: vendor/github.com/google/cel-go/checker/checker.go checkCreateList, checkCreateMap, checkCreateStruct, checkComprehension

use std::sync::Arc;

use super::{TypeChecker, infer::most_general, type_named};
use crate::{
    syntax::ast::{Id, Kind, Optionality},
    types::Type,
};

impl TypeChecker<'_> {
    /// What an item counts as that may be absent.
    fn unwrapped(&mut self, id: Id) -> Type {
        let ty = self.ty(id);
        match &ty {
            Type::Optional(inner) => Type::clone(inner),
            other => {
                if !other.is_dyn() {
                    self.mismatch(id, &Type::Optional(Arc::new(other.clone())), other);
                }
                ty
            }
        }
    }

    fn join(&mut self, id: Id, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else {
            return ty;
        };
        if self.known.assign(&before, &ty) {
            return most_general(&before, &ty).clone();
        }
        self.mismatch(id, &before, &ty);
        Type::Error
    }

    pub(super) fn list(&mut self, id: Id) -> Type {
        let Kind::List { items, optionalities } = self.ast.kind(id) else {
            return Type::Error;
        };
        let items = items.clone();
        let optionalities = optionalities.clone();
        let mut joined = None;
        for (at, item) in items.into_iter().enumerate() {
            self.node(item);
            let ty = if optionalities.get(at) == Some(&Optionality::Optional) {
                self.unwrapped(item)
            } else {
                self.ty(item)
            };
            joined = Some(self.join(item, joined, ty));
        }
        let items = joined.unwrap_or_else(|| self.fresh());
        Type::list(items)
    }

    pub(super) fn map(&mut self, id: Id) -> Type {
        let Kind::Map(entries) = self.ast.kind(id) else {
            return Type::Error;
        };
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| (entry.key, entry.value, entry.optionality))
            .collect();
        let mut joined: Option<(Type, Type)> = None;
        for (key, value, optionality) in entries {
            self.node(key);
            let (keys, values) = joined.map_or((None, None), |(keys, values)| (Some(keys), Some(values)));
            let ty = self.ty(key);
            let keys = self.join(key, keys, ty);
            self.node(value);
            let ty = if optionality == Optionality::Optional {
                self.unwrapped(value)
            } else {
                self.ty(value)
            };
            joined = Some((keys, self.join(value, values, ty)));
        }
        let (keys, values) = joined.unwrap_or_else(|| (self.fresh(), self.fresh()));
        Type::map(keys, values)
    }

    pub(super) fn message(&mut self, id: Id) -> Type {
        let Kind::Struct { name, fields } = self.ast.kind(id) else {
            return Type::Error;
        };
        let name = Arc::clone(name);
        let fields: Vec<_> = fields
            .iter()
            .map(|it| (it.offset, Arc::clone(&it.field), it.value, it.optionality))
            .collect();
        let plain = name.strip_prefix('.').unwrap_or(&name);
        let ty = match type_named(plain, self.environment.patch_types()) {
            None => return self.undeclared(id, &name),
            Some(ty @ Type::Message(_)) => ty,
            Some(other) => {
                self.issue_at(id, format!("'{other}' is not a message type"));
                Type::Error
            }
        };
        for (offset, field, value, optionality) in fields {
            self.node(value);
            let wanted = self.member(id, Some(offset), &ty, &field);
            let given = if optionality == Optionality::Optional {
                self.unwrapped(value)
            } else {
                self.ty(value)
            };
            if !self.known.assign(&wanted, &given) {
                let message = format!(
                    "expected type of field '{field}' is '{}' but provided type is '{}'",
                    wanted.short(),
                    given.short()
                );
                self.issue(offset, message);
            }
        }
        ty
    }

    pub(super) fn comprehension(&mut self, id: Id) -> Type {
        let Kind::Comprehension(it) = self.ast.kind(id) else {
            return Type::Error;
        };
        let range = it.range;
        let init = it.init;
        let condition = it.condition;
        let step = it.step;
        let result = it.result;
        let var = Arc::clone(&it.var);
        let var2 = it.var2.clone();
        let accu = Arc::clone(&it.accu);
        self.node(range);
        self.node(init);
        let range_type = self.known.resolve(&self.ty(range));
        let accu_type = self.ty(init);
        self.scope.push((accu, accu_type.clone()));
        let (key, value) = match &range_type {
            Type::List(items) => (Type::Int, Type::clone(items)),
            Type::Map(keys, values) => (Type::clone(keys), Type::clone(values)),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.known.assign(&Type::Dyn, &range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.short()
                );
                self.issue_at(range, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scope.len();
        match var2 {
            Some(var2) => self.scope.extend([(var, key), (var2, value)]),
            None if matches!(range_type, Type::List(_)) => self.scope.push((var, value)),
            None => self.scope.push((var, key)),
        }
        self.node(condition);
        self.expect(condition, &Type::Bool);
        self.node(step);
        self.expect(step, &accu_type);
        self.scope.truncate(outer);
        self.node(result);
        self.scope.pop();
        self.known.resolve(&self.ty(result))
    }

    fn expect(&mut self, id: Id, wanted: &Type) {
        let given = self.ty(id);
        if !self.known.assign(wanted, &given) {
            self.mismatch(id, wanted, &given);
        }
    }
}
