//! Compiles the CEL validation rules of a schema (`x-kubernetes-validations`).

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go Compile, compileRule

use k3_cel::{CompileError, DeclType, Environment, Program, Shape, Type};

use super::{
    super::node::{Node, NodeRole, SchemaFlag},
    declare::declare,
    rule::Rule,
};

/// The value a rule speaks of.
const SELF: &str = "self";
/// What it was before.
const OLD: &str = "oldSelf";

/// What the rules of one schema see.
pub(crate) struct ExpressionScope {
    /// The type of `self`.
    decl: DeclType,
    /// With an old value that is there.
    plain: Environment,
    /// With an old value that may be missing.
    optional: Environment,
}

/// Why an expression of a rule cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuleCompileError {
    #[error("program instantiation failed: {0}")]
    Instantiation(#[source] CompileError),
    #[error("compilation failed: {0}")]
    Compilation(#[source] CompileError),
    #[error("cel expression must evaluate to a bool")]
    NotBool,
    #[error("messageExpression instantiation failed: {0}")]
    MessageInstantiation(#[source] CompileError),
    #[error("messageExpression compilation failed: {0}")]
    MessageCompilation(#[source] CompileError),
    #[error("messageExpression must evaluate to a string")]
    MessageNotString,
}

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    /// `None` if the rule is empty.
    pub(crate) program: Option<Result<Program, RuleCompileError>>,
    /// The same of the expression that gives the message.
    pub(crate) message: Option<Result<Program, RuleCompileError>>,
    /// Whether it speaks of the old value.
    pub(crate) uses_old: bool,
}

/// The rules of a schema and of all schemas inside that have some.
#[derive(Debug)]
pub(crate) struct CompiledRuleTree {
    /// The rules, as written and compiled.
    pub(super) rules: Vec<(Rule, CompiledRule)>,
    /// The type of `self`; `None` if expressions see nothing of it.
    pub(super) decl: Option<DeclType>,
    pub(super) items: Option<Box<CompiledRuleTree>>,
    /// Sorted by name.
    pub(super) properties: Vec<(Box<str>, CompiledRuleTree)>,
    pub(super) additional: Option<Box<CompiledRuleTree>>,
    /// The rules that `allOf` brings.
    pub(super) all_of: Vec<CompiledRuleTree>,
}

// --- ExpressionScope ---

impl ExpressionScope {
    pub(crate) fn new(decl: DeclType) -> ExpressionScope {
        let decl = decl.named("selfType");
        let base = Environment::new().variable(SELF, decl.clone());
        let optional = DeclType::from(Shape::Optional(decl.clone().into()));
        ExpressionScope {
            plain: base.clone().variable(OLD, decl.clone()),
            optional: base.variable(OLD, optional),
            decl,
        }
    }

    /// Compiles a rule.
    pub(crate) fn compile(&self, rule: &Rule) -> CompiledRule {
        let mut compiled = CompiledRule {
            program: None,
            message: None,
            uses_old: false,
        };
        if rule.expression.trim().is_empty() {
            return compiled;
        }
        let environment = if rule.optional_old {
            &self.optional
        } else {
            &self.plain
        };
        let program = match Program::compile(environment, &rule.expression) {
            Err(error) if error.is_instantiation() => Err(RuleCompileError::Instantiation(error)),
            Err(error) => Err(RuleCompileError::Compilation(error)),
            Ok(program) if *program.result_type() != Type::Bool => Err(RuleCompileError::NotBool),
            Ok(program) => Ok(program),
        };
        if let Ok(program) = &program {
            compiled.uses_old = program.uses(OLD);
            if !rule.message_expression.is_empty() {
                compiled.message = Some(match Program::compile(environment, &rule.message_expression) {
                    Err(error) if error.is_instantiation() => {
                        Err(RuleCompileError::MessageInstantiation(error))
                    }
                    Err(error) => Err(RuleCompileError::MessageCompilation(error)),
                    Ok(program) if *program.result_type() != Type::String => {
                        Err(RuleCompileError::MessageNotString)
                    }
                    Ok(program) => Ok(program),
                });
            }
        }
        compiled.program = Some(program);
        compiled
    }
}

// --- CompiledRuleTree ---

impl CompiledRuleTree {
    /// The rules of a whole schema; `None` if it has none.
    pub(crate) fn of(node: &Node, role: NodeRole) -> Option<CompiledRuleTree> {
        if !node.has_flag(SchemaFlag::Ruled) || !is_ruled(node) {
            return None;
        }
        let decl = declare(node, role).map(|declared| declared.decl);
        CompiledRuleTree::build(node, node, decl.as_ref())
    }

    /// `rules`: the schema that has the rules; `node`: the schema of the value, which is another one within `allOf`.
    fn build(rules: &Node, node: &Node, decl: Option<&DeclType>) -> Option<CompiledRuleTree> {
        if !rules.has_flag(SchemaFlag::Ruled) {
            return None;
        }
        let scope = decl
            .filter(|_| !rules.rules().is_empty())
            .map(|decl| ExpressionScope::new(decl.clone()));
        let compiled = rules.rules().iter().filter_map(|rule| {
            let compiled = scope.as_ref()?.compile(rule);
            Some((rule.clone(), compiled))
        });
        let tree = CompiledRuleTree {
            rules: compiled.collect(),
            decl: scope.as_ref().map(|scope| scope.decl.clone()),
            items: rules
                .items()
                .zip(node.items())
                .and_then(|(rules, node)| CompiledRuleTree::build(rules, node, items_of(decl)))
                .map(Box::new),
            properties: rules
                .properties()
                .filter_map(|(name, rules)| {
                    let node = node.property(name)?;
                    let own;
                    let decl = if let Some(escaped) = k3_cel::escape(name) {
                        field_of(decl?, &escaped)?
                    } else {
                        own = declare(node, node.role())?.decl;
                        &own
                    };
                    Some((name.into(), CompiledRuleTree::build(rules, node, Some(decl))?))
                })
                .collect(),
            additional: match (rules.values(), node.values()) {
                (Some(rules), Some(node)) => {
                    CompiledRuleTree::build(rules, node, items_of(decl)).map(Box::new)
                }
                _ => None,
            },
            all_of: rules
                .all_of()
                .iter()
                .filter_map(|rules| CompiledRuleTree::build(rules, node, decl))
                .collect(),
        };
        let empty = tree.rules.is_empty()
            && tree.items.is_none()
            && tree.properties.is_empty()
            && tree.additional.is_none()
            && tree.all_of.is_empty();
        (!empty).then_some(tree)
    }

    /// The rules of a field.
    pub(super) fn property(&self, name: &str) -> Option<&CompiledRuleTree> {
        let found = self
            .properties
            .binary_search_by(|(known, _)| (**known).cmp(name))
            .ok()?;
        Some(&self.properties[found].1)
    }
}

/// Whether a schema or one inside has rules. Those that only `allOf` brings do not count: they are asked along with others.
fn is_ruled(node: &Node) -> bool {
    !node.rules().is_empty()
        || node.items().is_some_and(is_ruled)
        || node.values().is_some_and(is_ruled)
        || node.properties().any(|(_, node)| is_ruled(node))
}

/// What the items of a list, or the values of a map, are declared as.
fn items_of(decl: Option<&DeclType>) -> Option<&DeclType> {
    match &decl?.shape {
        Shape::List(items, _) => Some(items),
        Shape::Map(_, values) => Some(values),
        _ => None,
    }
}

fn field_of<'d>(decl: &'d DeclType, escaped: &str) -> Option<&'d DeclType> {
    match &decl.shape {
        Shape::Object(object) => object.get(escaped),
        _ => None,
    }
}
