//! Whether an expression is valid, and what it gives.
//!
//! Promises: of a checked tree every name is a variable or a type, every call has its overloads, and every node its
//! type. The work is in proportion to the tree: types that grow beyond measure are refused.

// upstream: vendor/github.com/google/cel-go/checker/checker.go Check, checkIdent, checkSelect, checkCall, resolveOverload

mod aggregate;
mod infer;
mod literals;

use std::{collections::BTreeSet, sync::Arc};

use self::infer::{InferredTypes, instantiate};
use crate::{
    decl::OpaqueType,
    environment::{Environment, PatchTypes},
    function::signature::{self, Function},
    source::Issue,
    syntax::ast::{Ast, Id, Kind, Literal, SelectKind},
    types::Type,
};

/// The most parts of a type.
const LARGEST_TYPE: u32 = 4_096;

/// A tree that is valid.
#[derive(Debug)]
pub(crate) struct CheckedExpression {
    pub(crate) ast: Ast,
    /// Of each node.
    pub(crate) types: Vec<Type>,
    /// Of each call: what it can mean.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The variables in it.
    pub(crate) variables: BTreeSet<Arc<str>>,
    /// The names in it that are types.
    pub(crate) type_names: Vec<(Id, Type)>,
}

/// Checks a tree against an environment.
pub(crate) fn check(environment: &Environment, ast: Ast) -> Result<CheckedExpression, Vec<Issue>> {
    let nodes = ast.nodes.len();
    let mut checker = TypeChecker {
        environment,
        ast,
        types: vec![Type::Error; nodes],
        overloads: vec![Vec::new(); nodes],
        variables: BTreeSet::new(),
        type_names: Vec::new(),
        scope: Vec::new(),
        known: InferredTypes::default(),
        unknown: 0,
        issues: Vec::new(),
    };
    let root = checker.ast.root;
    checker.node(root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    for ty in &mut checker.types {
        if !matches!(ty, Type::Error) {
            *ty = checker.known.resolve_to_dyn(ty);
        }
    }
    let checked = CheckedExpression {
        ast: checker.ast,
        types: checker.types,
        overloads: checker.overloads,
        variables: checker.variables,
        type_names: checker.type_names,
    };
    let issues = literals::check(&checked);
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

struct TypeChecker<'e> {
    environment: &'e Environment,
    ast: Ast,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    variables: BTreeSet<Arc<str>>,
    type_names: Vec<(Id, Type)>,
    /// The variables of loops around.
    scope: Vec<(Arc<str>, Type)>,
    known: InferredTypes,
    /// How many unknown types there are.
    unknown: u32,
    issues: Vec<Issue>,
}

impl TypeChecker<'_> {
    fn issue(&mut self, offset: u32, message: String) {
        self.issues.push(Issue {
            offset: Some(offset),
            message,
        });
    }

    fn issue_at(&mut self, id: Id, message: String) {
        self.issue(self.ast.node(id).offset, message);
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.issue_at(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.issue_at(
            id,
            format!(
                "expected type '{}' but found '{}'",
                expected.short(),
                found.short()
            ),
        );
    }

    fn fresh(&mut self) -> Type {
        self.unknown += 1;
        Type::Param(self.unknown - 1)
    }

    fn ty(&self, id: Id) -> Type {
        self.types[id as usize].clone()
    }

    fn node(&mut self, id: Id) {
        let mut ty = match self.ast.kind(id) {
            Kind::Broken => Type::Error,
            Kind::Literal(literal) => of_literal(literal),
            Kind::Ident(name) => {
                let name = Arc::clone(name);
                self.ident(id, &name)
            }
            Kind::Select { operand, field, kind } => {
                let operand = *operand;
                let field = Arc::clone(field);
                match kind {
                    SelectKind::Value => self.select(id, operand, &field),
                    SelectKind::Test => {
                        self.field(id, operand, &field);
                        Type::Bool
                    }
                }
            }
            Kind::Call { .. } => self.call(id),
            Kind::List { .. } => self.list(id),
            Kind::Map(_) => self.map(id),
            Kind::Struct { .. } => self.message(id),
            Kind::Comprehension(_) => self.comprehension(id),
        };
        let mut remaining = LARGEST_TYPE;
        if !fits_in(&ty, &mut remaining) {
            self.issue_at(id, "type is too large".to_owned());
            ty = Type::Error;
        }
        self.types[id as usize] = ty;
    }

    // --- names ---

    fn local(&self, name: &str) -> Option<&Type> {
        self.scope
            .iter()
            .rev()
            .find(|(local, _)| &**local == name)
            .map(|(_, ty)| ty)
    }

    /// A variable or a type of the environment.
    fn global(&self, name: &str) -> Option<Type> {
        if let Some(decl) = self.environment.find(name) {
            return Some(decl.ty());
        }
        type_named(name, self.environment.patch_types()).map(|ty| Type::Type(Some(Arc::new(ty))))
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if plain.len() == name.len()
            && let Some(ty) = self.local(name)
        {
            return ty.clone();
        }
        match self.global(plain) {
            Some(ty) => self.reference(id, plain, ty),
            None => self.undeclared(id, name),
        }
    }

    fn reference(&mut self, id: Id, name: &str, ty: Type) -> Type {
        // A variable of the environment that a loop hides differs from the loop's by its leading dot.
        let shown: Arc<str> = if self.local(name).is_some() {
            format!(".{name}").into()
        } else {
            name.into()
        };
        match &ty {
            Type::Type(Some(of)) if self.environment.find(name).is_none() => {
                self.type_names.push((id, Type::clone(of)));
            }
            _ => {
                self.variables.insert(name.into());
            }
        }
        self.ast.nodes[id as usize].kind = Kind::Ident(shown);
        ty
    }

    /// The parts of a qualified name.
    fn qualified(&self, id: Id) -> Option<String> {
        match self.ast.kind(id) {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select {
                operand,
                field,
                kind: SelectKind::Value,
            } => {
                let mut name = self.qualified(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &str) -> Type {
        if let Some(name) = self.qualified(id) {
            let plain = name.strip_prefix('.').unwrap_or(&name);
            let first = name.split_once('.').map_or(&*name, |(first, _)| first);
            if (first.is_empty() || self.local(first).is_none())
                && let Some(ty) = self.global(plain)
            {
                return self.reference(id, plain, ty);
            }
        }
        let ty = self.field(id, operand, field);
        self.known.resolve(&ty)
    }

    /// The type of a field; an optional, if it is a field of one.
    fn field(&mut self, id: Id, operand: Id, field: &str) -> Type {
        self.node(operand);
        match self.known.resolve(&self.ty(operand)) {
            Type::Optional(inner) => Type::Optional(Arc::new(self.field_of(id, &inner, field))),
            operand => self.field_of(id, &operand, field),
        }
    }

    fn field_of(&mut self, id: Id, target: &Type, field: &str) -> Type {
        match target {
            Type::Map(_, values) => Type::clone(values),
            Type::Object(_) | Type::Message(_) => self.member(id, None, target, field),
            Type::Opaque(opaque) if target.is_struct() => {
                self.issue_at(id, format!("unexpected failed resolution of '{}'", opaque.name()));
                Type::Error
            }
            Type::Param(_) => {
                self.known.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.issue_at(
                        id,
                        format!("type '{}' does not support field selection", other.short()),
                    );
                }
                Type::Dyn
            }
        }
    }

    /// What a field of an object is; `offset` is where it stands, if not at the node.
    fn member(&mut self, id: Id, offset: Option<u32>, object: &Type, field: &str) -> Type {
        let found = match object {
            Type::Object(object) => object.get(field).map(crate::decl::DeclType::ty),
            Type::Message(name) if &**name == "JSONPatch" => match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            },
            _ => Some(Type::Dyn),
        };
        found.unwrap_or_else(|| {
            let offset = offset.unwrap_or(self.ast.node(id).offset);
            self.issue(offset, format!("undefined field '{field}'"));
            Type::Error
        })
    }

    // --- calls ---

    fn call(&mut self, id: Id) -> Type {
        let Kind::Call {
            function,
            target,
            args,
        } = self.ast.kind(id)
        else {
            return Type::Error;
        };
        let name = Arc::clone(function);
        let target = *target;
        let args = args.clone();
        if &*name == "_?._" {
            return self.optional_field(id, &args);
        }
        for arg in &args {
            self.node(*arg);
        }
        let Some(target) = target else {
            let plain = name.strip_prefix('.').unwrap_or(&name);
            let Some(function) = signature::find(plain, self.environment.patch_types()) else {
                return self.undeclared(id, &name);
            };
            return self.resolve(id, plain, function, None, &args);
        };
        if let Some(prefix) = self.qualified(target) {
            let full = format!("{}.{name}", prefix.strip_prefix('.').unwrap_or(&prefix));
            if let Some(function) = signature::find(&full, self.environment.patch_types()) {
                self.ast.nodes[id as usize].kind = Kind::Call {
                    function: full.as_str().into(),
                    target: None,
                    args: args.clone(),
                };
                return self.resolve(id, &full, function, None, &args);
            }
        }
        self.node(target);
        match signature::find(&name, self.environment.patch_types()) {
            Some(function) => self.resolve(id, &name, function, Some(target), &args),
            None => self.undeclared(id, &name),
        }
    }

    fn optional_field(&mut self, id: Id, args: &[Id]) -> Type {
        let Kind::Literal(Literal::String(field)) = self.ast.kind(args[1]) else {
            return Type::Error;
        };
        let field = Arc::clone(field);
        self.types[args[1] as usize] = Type::String;
        self.node(args[0]);
        let operand = match self.known.resolve(&self.ty(args[0])) {
            Type::Optional(inner) => Type::clone(&inner),
            operand => operand,
        };
        let ty = Type::Optional(Arc::new(self.field_of(id, &operand, &field)));
        self.overloads[id as usize] = vec!["select_optional_field"];
        self.known.resolve(&ty)
    }

    fn resolve(
        &mut self,
        id: Id,
        name: &str,
        function: &'static Function,
        target: Option<Id>,
        args: &[Id],
    ) -> Type {
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.ty(*arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.logic(id, function, args, &given);
        }
        let mut result: Option<Type> = None;
        for overload in function
            .overloads
            .iter()
            .filter(|overload| overload.method == target.is_some())
        {
            let first = self.unknown;
            self.unknown += overload.unknown;
            let wanted: Vec<Type> = overload
                .params
                .iter()
                .map(|param| instantiate(param, first))
                .collect();
            if !self.known.assign_all(&given, &wanted) {
                continue;
            }
            self.overloads[id as usize].push(overload.id);
            let gives = self.known.resolve(&instantiate(&overload.result, first));
            result = Some(match result {
                None => gives,
                Some(before) if before.is_dyn() || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let given: Vec<Type> = given.iter().map(|ty| self.known.resolve_to_dyn(ty)).collect();
            let shown: Vec<String> = given.iter().map(|ty| ty.short().to_string()).collect();
            let signature = match target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            self.issue_at(
                id,
                format!("found no matching overload for '{name}' applied to '{signature}'"),
            );
            Type::Error
        })
    }

    fn logic(&mut self, id: Id, function: &'static Function, args: &[Id], given: &[Type]) -> Type {
        self.overloads[id as usize] = vec![function.overloads[0].id];
        let mut fine = true;
        for (arg, ty) in args.iter().zip(given) {
            if !self.known.assign(ty, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, ty);
                fine = false;
            }
        }
        if fine { Type::Bool } else { Type::Error }
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The type of a name.
pub(crate) fn type_named(name: &str, patch_types: PatchTypes) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::Optional(Arc::new(Type::Dyn)),
        "net.IP" => Type::Opaque(OpaqueType::Ip),
        "net.CIDR" => Type::Opaque(OpaqueType::Cidr),
        "Object" | "JSONPatch" if patch_types == PatchTypes::Declared => Type::Message(name.into()),
        name if patch_types == PatchTypes::Declared && name.starts_with("Object.") => {
            Type::Message(name.into())
        }
        _ => return None,
    })
}

fn fits_in(ty: &Type, remaining: &mut u32) -> bool {
    if *remaining == 0 {
        return false;
    }
    *remaining -= 1;
    match ty {
        Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => fits_in(inner, remaining),
        Type::Map(keys, values) => fits_in(keys, remaining) && fits_in(values, remaining),
        _ => true,
    }
}
