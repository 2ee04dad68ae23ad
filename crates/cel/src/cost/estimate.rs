//! What an expression can cost, before it runs.
//!
//! Sizes are taken from declarations: a node that is reached from a variable by names and indexes has the size that is
//! declared there. What functions give has a size that follows from what they are given.

// upstream: vendor/github.com/google/cel-go/checker/cost.go Cost, costSelect, costCall, costComprehension

use std::{collections::HashMap, sync::Arc};

use super::{CostEstimate, TEXT, calls};
use crate::{
    check::CheckedExpression,
    decl::{DeclType, Shape},
    environment::Environment,
    syntax::ast::{Comprehension, Id, Kind, Literal, SelectKind},
    types::Type,
};

/// The way from a variable to a node. None if there is no such way.
pub(super) type Path = Option<Arc<EstimateStep>>;

/// A step of a way.
#[derive(Debug)]
pub(super) enum EstimateStep {
    Variable(Arc<str>),
    Field(Arc<EstimateStep>, Arc<str>),
    /// Items of a list or values of a map.
    Items(Arc<EstimateStep>),
    Keys(Arc<EstimateStep>),
    Indices,
}

/// How large what is in a list or a map is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner {
    list: bool,
    key: CostEstimate,
    value: CostEstimate,
}

/// What is known of a variable of a loop.
struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<CostEstimate>,
    inner: Option<Inner>,
}

/// Estimates a checked tree.
pub(crate) fn estimate(environment: &Environment, checked: &CheckedExpression) -> CostEstimate {
    let mut estimator = Estimator {
        environment,
        checked,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        inners: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(checked.ast.root)
}

pub(super) struct Estimator<'c> {
    environment: &'c Environment,
    pub(super) checked: &'c CheckedExpression,
    paths: HashMap<Id, Path>,
    sizes: HashMap<Id, CostEstimate>,
    inners: HashMap<Id, Inner>,
    locals: Vec<Local>,
}

/// An argument of a call.
pub(super) struct Arg {
    pub(super) id: Id,
    pub(super) ty: Type,
    pub(super) path: Path,
    pub(super) size: Option<CostEstimate>,
    pub(super) cost: CostEstimate,
}

impl Arg {
    pub(super) fn size(&self) -> CostEstimate {
        self.size.unwrap_or(CostEstimate::UNKNOWN)
    }
}

impl<'c> Estimator<'c> {
    fn ty(&self, id: Id) -> &'c Type {
        &self.checked.types[id as usize]
    }

    fn kind(&self, id: Id) -> &'c Kind {
        self.checked.ast.kind(id)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn cost(&mut self, id: Id) -> CostEstimate {
        match self.kind(id) {
            Kind::Broken | Kind::Literal(_) => CostEstimate::NOTHING,
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some(Arc::new(EstimateStep::Variable(Arc::clone(name)))),
                };
                self.paths.insert(id, path);
                CostEstimate::ONE
            }
            Kind::Select {
                operand,
                kind: SelectKind::Test,
                ..
            } => self.cost(*operand),
            Kind::Select { operand, field, .. } => {
                let mut sum = self.cost(*operand);
                let ty = self.ty(*operand);
                if matches!(ty, Type::Map(..)) || ty.is_struct() {
                    sum = sum.plus(CostEstimate::ONE);
                }
                let path = self
                    .path(*operand)
                    .map(|step| Arc::new(EstimateStep::Field(step, Arc::clone(field))));
                self.paths.insert(id, path);
                sum
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(id, function, *target, args),
            Kind::List { items, .. } => {
                let mut sum = CostEstimate::fixed(super::LIST);
                let mut value = CostEstimate {
                    min: if items.is_empty() { 0 } else { u64::MAX },
                    max: 0,
                };
                for item in items {
                    sum = sum.plus(self.cost(*item));
                    value = value.union(self.size(*item).unwrap_or(CostEstimate::UNKNOWN));
                }
                self.inners.insert(
                    id,
                    Inner {
                        list: true,
                        key: CostEstimate::ONE,
                        value,
                    },
                );
                sum
            }
            Kind::Map(entries) => {
                let mut sum = CostEstimate::fixed(30);
                let min = if entries.is_empty() { 0 } else { u64::MAX };
                let mut key = CostEstimate { min, max: 0 };
                let mut value = CostEstimate { min, max: 0 };
                for entry in entries {
                    sum = sum.plus(self.cost(entry.key)).plus(self.cost(entry.value));
                    key = key.union(self.size(entry.key).unwrap_or(CostEstimate::UNKNOWN));
                    value = value.union(self.size(entry.value).unwrap_or(CostEstimate::UNKNOWN));
                }
                self.inners.insert(
                    id,
                    Inner {
                        list: false,
                        key,
                        value,
                    },
                );
                sum
            }
            Kind::Struct { fields, .. } => fields.iter().fold(CostEstimate::fixed(40), |sum, field| {
                sum.plus(self.cost(field.value))
            }),
            Kind::Comprehension(it) => {
                if self.is_name_for_value(it) {
                    self.named(id, it)
                } else {
                    self.comprehension(id, it)
                }
            }
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &'c [Id]) -> CostEstimate {
        if function == "dyn" {
            let cost = self.cost(args[0]).plus(CostEstimate::ONE);
            self.copy_sizes(id, args[0]);
            return cost;
        }
        let args: Vec<Arg> = args.iter().map(|arg| self.arg(*arg)).collect();
        let overloads = &self.checked.overloads[id as usize];
        if overloads.is_empty() {
            return CostEstimate::NOTHING;
        }
        let target = target.map(|target| self.arg(target));
        let mut cost = CostEstimate {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<CostEstimate> = None;
        for overload in overloads {
            let (overload_cost, result) = calls::call(self, id, function, overload, target.as_ref(), &args);
            cost = cost.union(overload_cost);
            if let Some(result) = result {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            if matches!(*overload, "index_list" | "index_map") {
                size = self.inner(args[0].id).map(|inner| inner.value);
                let path = self
                    .path(args[0].id)
                    .map(|step| Arc::new(EstimateStep::Items(step)));
                self.paths.insert(id, path);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
        target.map_or(cost, |target| target.cost.plus(cost))
    }

    fn arg(&mut self, id: Id) -> Arg {
        let cost = self.cost(id);
        let path = self.path(id).filter(|step| !step.is_accumulator());
        Arg {
            id,
            ty: self.ty(id).clone(),
            path,
            size: self.size(id),
            cost,
        }
    }

    fn comprehension(&mut self, id: Id, it: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(it.range).plus(self.cost(it.init));
        self.push_value(&it.accu, it.init);
        let outer = self.locals.len();
        let path = self.path(it.range);
        let inner = self.inner(it.range);
        let list = inner.map_or_else(|| matches!(self.ty(it.range), Type::List(_)), |inner| inner.list);
        let items = path.clone().map(|step| Arc::new(EstimateStep::Items(step)));
        let keys = if list {
            path.map(|_| Arc::new(EstimateStep::Indices))
        } else {
            path.map(|step| Arc::new(EstimateStep::Keys(step)))
        };
        let key = |name: &Arc<str>| Local {
            name: Arc::clone(name),
            path: keys.clone(),
            size: inner.map(|inner| inner.key),
            inner: None,
        };
        let value = |name: &Arc<str>| Local {
            name: Arc::clone(name),
            path: items.clone(),
            size: inner.map(|inner| inner.value),
            inner: None,
        };
        match &it.var2 {
            Some(var2) => self.locals.extend([key(&it.var), value(var2)]),
            None if list => self.locals.push(value(&it.var)),
            None => self.locals.push(key(&it.var)),
        }
        let round = self.cost(it.condition).plus(self.cost(it.step));
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(it.result));
        self.locals.truncate(outer - 1);
        let rounds = self.size(it.range).unwrap_or(CostEstimate::UNKNOWN);
        match self.kind(it.init) {
            Kind::Literal(_) => {
                if let Some(size) = self.size(it.init) {
                    self.sizes.insert(id, size);
                }
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.sizes.insert(id, rounds);
                if let Some(inner) = self.inner(it.step) {
                    self.inners.insert(id, inner);
                }
            }
            _ => {}
        }
        sum.plus(rounds.times(round))
    }

    /// Whether a loop is only a name for a value.
    fn is_name_for_value(&self, it: &Comprehension) -> bool {
        matches!(self.kind(it.range), Kind::List { items, .. } if items.is_empty())
            && matches!(self.kind(it.condition), Kind::Literal(Literal::Bool(false)))
    }

    fn named(&mut self, id: Id, it: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(it.range).plus(self.cost(it.init));
        self.push_value(&it.accu, it.init);
        sum = sum.plus(self.cost(it.result));
        self.locals.pop();
        self.copy_sizes(id, it.result);
        sum
    }

    fn push_value(&mut self, name: &Arc<str>, init: Id) {
        let local = Local {
            name: Arc::clone(name),
            path: self.path(init),
            size: self.size(init),
            inner: self.inner(init),
        };
        self.locals.push(local);
    }

    // --- sizes ---

    fn path(&self, id: Id) -> Path {
        if let Kind::Ident(name) = self.kind(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&id).cloned().flatten()
    }

    fn copy_sizes(&mut self, to: Id, from: Id) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to, size);
        }
        if let Some(inner) = self.inner(from) {
            self.inners.insert(to, inner);
        }
    }

    pub(super) fn size(&mut self, id: Id) -> Option<CostEstimate> {
        if let Some(size) = self.sizes.get(&id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(self.kind(id)) {
            return Some(size);
        }
        if let Some(size) = self.declared(&self.path(id)) {
            self.sizes.insert(id, size);
            return Some(size);
        }
        if is_scalar(self.ty(id)) {
            return Some(CostEstimate::ONE);
        }
        match self.kind(id) {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    pub(super) fn inner(&self, id: Id) -> Option<Inner> {
        if let Some(inner) = self.inners.get(&id) {
            return Some(*inner);
        }
        match self.kind(id) {
            Kind::Ident(name) => self.local(name).and_then(|local| local.inner),
            _ => None,
        }
    }

    pub(super) fn set_inner(&mut self, id: Id, inner: Option<Inner>) {
        if let Some(inner) = inner {
            self.inners.insert(id, inner);
        }
    }

    /// The size that is declared for a location.
    pub(super) fn declared(&self, path: &Path) -> Option<CostEstimate> {
        let decl = self.decl(path.as_deref()?)?;
        Some(CostEstimate {
            min: 0,
            max: decl.size(),
        })
    }

    fn decl(&self, step: &EstimateStep) -> Option<&DeclType> {
        match step {
            // What may be absent is as large as when it is there.
            EstimateStep::Variable(name) => self.environment.find(name).map(|decl| match &decl.shape {
                Shape::Optional(inner) => inner,
                _ => decl,
            }),
            EstimateStep::Field(of, field) => match &self.decl(of)?.shape {
                Shape::Object(object) => object.get(field),
                // Attributes of devices are all of one size, whatever their names.
                Shape::Map(_, values) if matches!(values.shape, Shape::Dyn) => Some(values),
                _ => None,
            },
            EstimateStep::Items(of) => match &self.decl(of)?.shape {
                Shape::List(items, _) | Shape::Map(_, items) => Some(items),
                _ => None,
            },
            EstimateStep::Keys(of) => match &self.decl(of)?.shape {
                Shape::Map(keys, _) => Some(keys),
                _ => None,
            },
            EstimateStep::Indices => None,
        }
    }

    /// The size of an item of a list.
    pub(super) fn item_size(&self, list: &Arg) -> CostEstimate {
        let path = list.path.clone().map(|step| Arc::new(EstimateStep::Items(step)));
        self.declared(&path).unwrap_or(CostEstimate::UNKNOWN)
    }
}

impl Inner {
    pub(super) fn union(self, other: Inner) -> Inner {
        Inner {
            list: self.list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

impl EstimateStep {
    fn is_accumulator(&self) -> bool {
        match self {
            EstimateStep::Variable(name) => &**name == crate::syntax::ACCUMULATOR,
            EstimateStep::Field(of, _) | EstimateStep::Items(of) | EstimateStep::Keys(of) => {
                of.is_accumulator()
            }
            EstimateStep::Indices => false,
        }
    }
}

fn literal_size(kind: &Kind) -> Option<CostEstimate> {
    let size = match kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List { items, .. } => items.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(CostEstimate::fixed(u64::try_from(size).unwrap_or(u64::MAX)))
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

/// What traversing a text of a size costs.
pub(super) fn traversed(size: CostEstimate) -> CostEstimate {
    size.scaled(TEXT)
}
