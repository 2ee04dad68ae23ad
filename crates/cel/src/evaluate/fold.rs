//! Loops: every macro over lists and maps is one.

// upstream: vendor/github.com/google/cel-go/interpreter/interpretable.go evalFold

use super::{Evaluation, Local};
use crate::{
    error::{ErrorKind, EvalError},
    syntax::ast::Comprehension,
    value::{List, Map, Result, Value},
};

impl<'p, 'a> Evaluation<'p, '_, 'a> {
    pub(super) fn fold(&mut self, it: &'p Comprehension) -> Result<'a> {
        let range = self.eval(it.range)?;
        let depth = self.locals.len();
        self.locals.push(Local {
            name: &it.accu,
            value: None,
            init: Some(it.init),
        });
        let result = self.rounds(it, depth, &range).and_then(|()| self.eval(it.result));
        self.locals.truncate(depth);
        result
    }

    fn rounds(
        &mut self,
        it: &'p Comprehension,
        accu: usize,
        range: &Value<'a>,
    ) -> std::result::Result<(), EvalError> {
        let keys = match range {
            Value::List(_) => None,
            Value::Map(map) => Some(map.keys()),
            other => {
                return Err(EvalError::new(format!(
                    "got '{}', expected iterable type",
                    go_type_name(other)
                )));
            }
        };
        let rounds = match (range, &keys) {
            (Value::List(list), _) => list.len(),
            (_, Some(keys)) => keys.len(),
            _ => 0,
        };
        for round in 0..rounds {
            let first = match (range, &keys, &it.var2) {
                (_, Some(keys), _) => Ok(keys[round].clone()),
                (Value::List(list), _, None) => item(list, round),
                _ => Ok(Value::Int(i64::try_from(round).unwrap_or(i64::MAX))),
            };
            self.locals.push(Local {
                name: &it.var,
                value: Some(first),
                init: None,
            });
            if let Some(var2) = &it.var2 {
                let second = match (range, &keys) {
                    (Value::Map(map), Some(keys)) => entry(map, &keys[round]),
                    (Value::List(list), _) => item(list, round),
                    _ => Err(EvalError::no_such_overload()),
                };
                self.locals.push(Local {
                    name: var2,
                    value: Some(second),
                    init: None,
                });
            }
            let condition = self.eval(it.condition);
            match condition {
                Ok(Value::Bool(false)) => {
                    self.locals.truncate(accu + 1);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::CostLimit => return Err(error),
                _ => {}
            }
            let step = self.eval(it.step);
            self.locals.truncate(accu + 1);
            match step {
                Err(error) if error.kind() == ErrorKind::CostLimit => return Err(error),
                step => self.locals[accu].value = Some(step),
            }
        }
        Ok(())
    }
}

fn item<'a>(list: &List<'a>, at: usize) -> Result<'a> {
    list.get(at)
        .unwrap_or_else(|| Err(EvalError::new(format!("index out of bounds: {at}"))))
}

fn entry<'a>(map: &Map<'a>, key: &Value<'a>) -> Result<'a> {
    map.find(key)
        .unwrap_or_else(|| Err(EvalError::new(format!("no such key: {key}"))))
}

/// The Go type of a value, which only this error of upstream shows.
// upstream: vendor/github.com/google/cel-go/interpreter/interpretable.go evalFold
fn go_type_name(value: &Value<'_>) -> String {
    match value {
        Value::Null => "types.Null".to_owned(),
        Value::Bool(_) => "types.Bool".to_owned(),
        Value::Int(_) => "types.Int".to_owned(),
        Value::Uint(_) => "types.Uint".to_owned(),
        Value::Double(_) => "types.Double".to_owned(),
        Value::String(_) => "types.String".to_owned(),
        Value::Bytes(_) => "types.Bytes".to_owned(),
        Value::Duration(_) => "types.Duration".to_owned(),
        Value::Timestamp(_) => "types.Timestamp".to_owned(),
        Value::Optional(_) => "*types.Optional".to_owned(),
        other => other.type_name(),
    }
}
