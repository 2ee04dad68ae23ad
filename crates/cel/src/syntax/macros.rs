//! What is written as a call and means more: loops, presence, names for values.

// upstream: vendor/github.com/google/cel-go/parser/macro.go MakeHas, MakeAll, MakeExists, MakeExistsOne, MakeMap, MakeFilter
// upstream: vendor/github.com/google/cel-go/ext/bindings.go celBind

use std::sync::Arc;

use super::{
    ast::{Comprehension, Entry, Id, Init, Kind, Literal, SelectKind},
    parser::Parser,
    recovery::ParseStop,
};

/// What a loop folds into; no name of a user looks like it.
pub(crate) const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
const UNUSED: &str = "#unused";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";
const NOT_SIMPLE: &str = "argument must be a simple name";

/// Which macros there are besides those that are always there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Macros {
    /// `cel.bind`.
    pub(crate) bind: bool,
}

type ParseResult<T> = Result<T, ParseStop>;
/// The names of a loop's items.
type LoopVariables = (Arc<str>, Option<Arc<str>>);

/// What a call of a function becomes, if it is a macro.
pub(super) fn global(
    parser: &mut Parser<'_>,
    offset: u32,
    name: &str,
    args: &[Id],
) -> ParseResult<Option<Id>> {
    if name != "has" || args.len() != 1 {
        return Ok(None);
    }
    let kind = if let Kind::Select { operand, field, .. } = parser.ast.kind(args[0]) {
        Kind::Select {
            operand: *operand,
            field: Arc::clone(field),
            kind: SelectKind::Test,
        }
    } else {
        let at = parser.ast.node(args[0]).offset;
        return parser
            .wrong(at, "invalid argument to has() macro".to_owned())
            .map(Some);
    };
    parser.node(offset, kind).map(Some)
}

/// What a call of a method becomes, if it is a macro.
pub(super) fn receiver(
    parser: &mut Parser<'_>,
    macros: Macros,
    offset: u32,
    name: &str,
    target: Id,
    args: &[Id],
) -> ParseResult<Option<Id>> {
    let mut make = MacroBuilder { parser, offset };
    let loops = match (name, args.len()) {
        ("all", 2 | 3) => LoopKind::All,
        ("exists", 2 | 3) => LoopKind::Exists,
        ("exists_one" | "existsOne", 2 | 3) => LoopKind::ExistsOne,
        ("filter", 2) => LoopKind::Filter,
        ("map", 2 | 3) => LoopKind::Map,
        ("transformList", 3 | 4) => LoopKind::TransformList,
        ("transformMap", 3 | 4) => LoopKind::TransformMap,
        ("transformMapEntry", 3 | 4) => LoopKind::TransformMapEntry,
        ("sortBy", 2) => return make.sort_by(target, args).map(Some),
        ("optMap", 2) => return make.opt_map(target, args, OptionalMap::Value).map(Some),
        ("optFlatMap", 2) => return make.opt_map(target, args, OptionalMap::Optional).map(Some),
        ("bind", 3)
            if macros.bind
                && matches!(make.parser.ast.kind(target), Kind::Ident(name) if &**name == "cel") =>
        {
            return make.bind(args).map(Some);
        }
        _ => return Ok(None),
    };
    make.fold(loops, target, args).map(Some)
}

#[derive(Clone, Copy, PartialEq)]
enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

/// What the expression of a mapped optional gives.
#[derive(Clone, Copy, PartialEq)]
enum OptionalMap {
    Value,
    Optional,
}

/// How many names a loop has for its items.
#[derive(Clone, Copy, PartialEq)]
enum LoopNames {
    One,
    Two,
}

/// Makes the nodes of a macro; they all stand where its bracket does.
struct MacroBuilder<'p, 's> {
    parser: &'p mut Parser<'s>,
    offset: u32,
}

impl MacroBuilder<'_, '_> {
    fn node(&mut self, kind: Kind) -> ParseResult<Id> {
        self.parser.node(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> ParseResult<Id> {
        self.node(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> ParseResult<Id> {
        self.node(Kind::Ident(name.into()))
    }

    fn accu(&mut self) -> ParseResult<Id> {
        self.ident(ACCUMULATOR)
    }

    fn list(&mut self, items: Vec<Id>) -> ParseResult<Id> {
        self.node(Kind::List {
            items,
            optionalities: Vec::new(),
        })
    }

    fn call(&mut self, name: &str, args: Vec<Id>) -> ParseResult<Id> {
        self.node(Kind::Call {
            function: name.into(),
            target: None,
            args,
        })
    }

    fn method(&mut self, name: &str, target: Id, args: Vec<Id>) -> ParseResult<Id> {
        self.node(Kind::Call {
            function: name.into(),
            target: Some(target),
            args,
        })
    }

    fn wrong(&mut self, at: Id, message: &str) -> ParseResult<Id> {
        let offset = self.parser.ast.node(at).offset;
        self.parser.wrong(offset, message.to_owned())
    }

    fn simple(&self, id: Id) -> Option<Arc<str>> {
        match self.parser.ast.kind(id) {
            Kind::Ident(name) => Some(Arc::clone(name)),
            _ => None,
        }
    }

    /// The names of the items, or that there is something wrong with them.
    fn names(
        &mut self,
        args: &[Id],
        names: LoopNames,
        not_simple: &str,
    ) -> ParseResult<Result<LoopVariables, Id>> {
        let Some(var) = self.simple(args[0]) else {
            return self.wrong(args[0], not_simple).map(Err);
        };
        let mut var2 = None;
        if names == LoopNames::Two {
            let Some(second) = self.simple(args[1]) else {
                return self.wrong(args[1], not_simple).map(Err);
            };
            if var == second {
                return self
                    .wrong(args[1], &format!("duplicate variable name: {var}"))
                    .map(Err);
            }
            var2 = Some(second);
        }
        for (arg, name) in args.iter().zip(std::iter::once(&var).chain(&var2)) {
            if &**name == ACCUMULATOR || &**name == OLD_ACCUMULATOR {
                return self.wrong(*arg, OVERWRITES).map(Err);
            }
        }
        Ok(Ok((var, var2)))
    }

    fn fold(&mut self, loops: LoopKind, target: Id, args: &[Id]) -> ParseResult<Id> {
        // With two variables the predicate is third.
        let names = match loops {
            LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne if args.len() == 3 => LoopNames::Two,
            LoopKind::TransformList | LoopKind::TransformMap | LoopKind::TransformMapEntry => LoopNames::Two,
            _ => LoopNames::One,
        };
        let not_simple = if matches!(loops, LoopKind::Filter | LoopKind::Map) {
            "argument is not an identifier"
        } else {
            NOT_SIMPLE
        };
        let (var, var2) = match self.names(args, names, not_simple)? {
            Ok(names) => names,
            Err(broken) => return Ok(broken),
        };
        let rest = match names {
            LoopNames::One => &args[1..],
            LoopNames::Two => &args[2..],
        };
        let asked = match rest {
            [filter, asked] => (Some(*filter), *asked),
            _ => (None, rest[0]),
        };
        let (init, condition, step) = self.steps(loops, (args[0], &var), asked)?;
        let mut result = self.accu()?;
        if loops == LoopKind::ExistsOne {
            let one = self.literal(Literal::Int(1))?;
            result = self.call("_==_", vec![result, one])?;
        }
        let accu = ACCUMULATOR.into();
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range: target,
            var,
            var2,
            accu,
            init,
            condition,
            step,
            result,
        })))
    }

    /// What a loop begins with, how long it continues, and what it does with each item.
    fn steps(
        &mut self,
        loops: LoopKind,
        (name, var): (Id, &str),
        (filter, asked): (Option<Id>, Id),
    ) -> ParseResult<(Id, Id, Id)> {
        let accu = self.accu()?;
        Ok(match loops {
            LoopKind::All => {
                let init = self.literal(Literal::Bool(true))?;
                (
                    init,
                    self.call("@not_strictly_false", vec![accu])?,
                    self.logical("_&&_", asked)?,
                )
            }
            LoopKind::Exists => {
                let init = self.literal(Literal::Bool(false))?;
                let not = self.call("!_", vec![accu])?;
                (
                    init,
                    self.call("@not_strictly_false", vec![not])?,
                    self.logical("_||_", asked)?,
                )
            }
            LoopKind::ExistsOne => {
                let init = self.literal(Literal::Int(0))?;
                let one = self.literal(Literal::Int(1))?;
                let more = self.call("_+_", vec![accu, one])?;
                let same = self.accu()?;
                (
                    init,
                    self.literal(Literal::Bool(true))?,
                    self.call("_?_:_", vec![asked, more, same])?,
                )
            }
            LoopKind::Filter => {
                let item = self.copy_name(name, var)?;
                let item = self.list(vec![item])?;
                let more = self.call("_+_", vec![accu, item])?;
                (
                    self.list(Vec::new())?,
                    self.literal(Literal::Bool(true))?,
                    self.when(Some(asked), more)?,
                )
            }
            LoopKind::Map | LoopKind::TransformList => {
                let item = self.list(vec![asked])?;
                let more = self.call("_+_", vec![accu, item])?;
                (
                    self.list(Vec::new())?,
                    self.literal(Literal::Bool(true))?,
                    self.when(filter, more)?,
                )
            }
            LoopKind::TransformMap => {
                let key = self.ident(var)?;
                let more = self.call("cel.@mapInsert", vec![accu, key, asked])?;
                (
                    self.node(Kind::Map(Vec::new()))?,
                    self.literal(Literal::Bool(true))?,
                    self.when(filter, more)?,
                )
            }
            LoopKind::TransformMapEntry => {
                let more = self.call("cel.@mapInsert", vec![accu, asked])?;
                (
                    self.node(Kind::Map(Vec::new()))?,
                    self.literal(Literal::Bool(true))?,
                    self.when(filter, more)?,
                )
            }
        })
    }

    fn logical(&mut self, name: &str, asked: Id) -> ParseResult<Id> {
        let accu = self.accu()?;
        self.call(name, vec![accu, asked])
    }

    fn copy_name(&mut self, like: Id, name: &str) -> ParseResult<Id> {
        let offset = self.parser.ast.node(like).offset;
        self.parser.node(offset, Kind::Ident(name.into()))
    }

    fn when(&mut self, filter: Option<Id>, more: Id) -> ParseResult<Id> {
        let Some(filter) = filter else {
            return Ok(more);
        };
        let same = self.accu()?;
        self.call("_?_:_", vec![filter, more, same])
    }

    /// A name for a value: a loop over nothing whose first value is the result's.
    fn named(&mut self, name: Arc<str>, init: Id, result: Id) -> ParseResult<Id> {
        let range = self.list(Vec::new())?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.ident(&name)?;
        let it = Comprehension {
            range,
            var: UNUSED.into(),
            var2: None,
            accu: name,
            init,
            condition,
            step,
            result,
        };
        self.node(Kind::Comprehension(Box::new(it)))
    }

    fn bind(&mut self, args: &[Id]) -> ParseResult<Id> {
        let Some(name) = self.simple(args[0]) else {
            return self.wrong(args[0], "cel.bind() variable names must be simple identifiers");
        };
        self.named(name, args[1], args[2])
    }

    fn opt_map(&mut self, target: Id, args: &[Id], gives: OptionalMap) -> ParseResult<Id> {
        let Some(name) = self.simple(args[0]) else {
            let macro_name = match gives {
                OptionalMap::Value => "optMap",
                OptionalMap::Optional => "optFlatMap",
            };
            return self.wrong(
                args[0],
                &format!("{macro_name}() variable name must be a simple identifier"),
            );
        };
        let there = self.method("hasValue", target, Vec::new())?;
        let copy = self.copy(target)?;
        let value = self.method("value", copy, Vec::new())?;
        let mut mapped = self.named(name, value, args[1])?;
        if gives == OptionalMap::Value {
            mapped = self.call("optional.of", vec![mapped])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![there, mapped, none])
    }

    fn sort_by(&mut self, target: Id, args: &[Id]) -> ParseResult<Id> {
        const INPUT: &str = "@__sortBy_input__";
        if !matches!(
            self.parser.ast.kind(target),
            Kind::List { .. }
                | Kind::Select { .. }
                | Kind::Ident(_)
                | Kind::Comprehension(_)
                | Kind::Call { .. }
        ) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.wrong(target, message);
        }
        let range = self.ident(INPUT)?;
        let keys = self.fold(LoopKind::Map, range, args)?;
        if matches!(self.parser.ast.kind(keys), Kind::Broken) {
            return Ok(keys);
        }
        let input = self.ident(INPUT)?;
        let sorted = self.method("@sortByAssociatedKeys", input, vec![keys])?;
        self.named(INPUT.into(), target, sorted)
    }

    /// A copy at the same offsets.
    fn copy(&mut self, id: Id) -> ParseResult<Id> {
        let offset = self.parser.ast.node(id).offset;
        let kind = match self.parser.ast.kind(id) {
            Kind::Broken => Kind::Broken,
            Kind::Literal(literal) => Kind::Literal(literal.clone()),
            Kind::Ident(name) => Kind::Ident(Arc::clone(name)),
            Kind::Select { operand, field, kind } => {
                let operand = *operand;
                let field = Arc::clone(field);
                let kind = *kind;
                Kind::Select {
                    operand: self.copy(operand)?,
                    field,
                    kind,
                }
            }
            Kind::Call {
                function,
                target,
                args,
            } => {
                let function = Arc::clone(function);
                let target = *target;
                let args = args.clone();
                let target = target.map(|target| self.copy(target)).transpose()?;
                Kind::Call {
                    function,
                    target,
                    args: self.copies(&args)?,
                }
            }
            Kind::List { items, optionalities } => {
                let items = items.clone();
                let optionalities = optionalities.clone();
                Kind::List {
                    items: self.copies(&items)?,
                    optionalities,
                }
            }
            Kind::Map(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|entry| (entry.key, entry.value, entry.optionality))
                    .collect();
                let copy = entries
                    .into_iter()
                    .map(|(key, value, optionality)| {
                        Ok(Entry {
                            key: self.copy(key)?,
                            value: self.copy(value)?,
                            optionality,
                        })
                    })
                    .collect::<ParseResult<_>>()?;
                Kind::Map(copy)
            }
            Kind::Struct { name, fields } => {
                let name = Arc::clone(name);
                let fields: Vec<_> = fields
                    .iter()
                    .map(|it| (it.offset, Arc::clone(&it.field), it.value, it.optionality))
                    .collect();
                let copy = fields
                    .into_iter()
                    .map(|(offset, field, value, optionality)| {
                        Ok(Init {
                            offset,
                            field,
                            value: self.copy(value)?,
                            optionality,
                        })
                    })
                    .collect::<ParseResult<_>>()?;
                Kind::Struct { name, fields: copy }
            }
            Kind::Comprehension(it) => {
                let (range, init, condition, step, result) =
                    (it.range, it.init, it.condition, it.step, it.result);
                let var = Arc::clone(&it.var);
                let var2 = it.var2.clone();
                let accu = Arc::clone(&it.accu);
                Kind::Comprehension(Box::new(Comprehension {
                    range: self.copy(range)?,
                    var,
                    var2,
                    accu,
                    init: self.copy(init)?,
                    condition: self.copy(condition)?,
                    step: self.copy(step)?,
                    result: self.copy(result)?,
                }))
            }
        };
        self.parser.node(offset, kind)
    }

    fn copies(&mut self, ids: &[Id]) -> ParseResult<Vec<Id>> {
        ids.iter().map(|id| self.copy(*id)).collect()
    }
}
