//! Judging a value by its schema, with the words and places of upstream.

mod fault;
mod format;
mod number;
mod place;
mod work;

use serde_json::Value;

pub(crate) use self::format::Format;
use self::{
    fault::{Fault, Judgement},
    place::Place,
    work::{TOO_MUCH, Work},
};
use super::{
    correlation::{Correlated, OldItems},
    node::{Additional, Flag, Junctors, Kind, Node},
};
use crate::{
    field::{BadValue, Error, Path},
    go,
    limits::{self, MAX_PATH_BYTES},
    strategy::ErrorList,
};

/// What is wrong with a value that stands at a place.
pub(crate) fn validate(value: &Value, node: &Node, at: &Path<'_>, errors: &mut ErrorList) {
    let work = Work::new();
    let judgement = judge(value, node, &Place::Top, None, &work);
    finish(judgement, &work, at, errors);
}

/// The same for a value that was there before, if it was: what did not change is not judged. `compared` is the schema by
/// which the two are compared.
pub(super) fn validate_update(
    value: &Value,
    old: Option<&Value>,
    (node, compared): (&Node, &Node),
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let work = Work::new();
    let judgement = judge(value, node, &Place::Top, None, &work);
    // What is good stays good, unless something must not be good.
    if judgement.is_good() && !node.says(Flag::Excludes) && !work.is_exhausted() {
        return;
    }
    let Some(old) = old else {
        finish(judgement, &work, at, errors);
        return;
    };
    let correlated = Correlated {
        new: value,
        old,
        node: compared,
    };
    let work = Work::new();
    let judgement = ratcheted(node, &Place::Top, correlated, &work);
    finish(judgement, &work, at, errors);
}

/// Reports what was found, or that the object is too large.
fn finish(judgement: Judgement, work: &Work<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    if work.is_exhausted() {
        errors.push(Error::invalid(at, BadValue::Omitted, TOO_MUCH));
    } else {
        judgement.into_errors(at, errors);
    }
}

/// Judges a value that can be compared with what it was.
fn ratcheted<'n>(
    node: &'n Node,
    place: &Place<'_>,
    correlated: Correlated<'_>,
    work: &Work<'n>,
) -> Judgement {
    let judgement = judge(correlated.new, node, place, Some(correlated), work);
    if !judgement.is_good() && correlated.is_same_within(&mut |steps| work.take(steps)) {
        return Judgement::passed(judgement.passed);
    }
    judgement
}

/// Judges a value. `correlated`: what the parts of it were before is compared.
fn judge<'n>(
    value: &Value,
    node: &'n Node,
    place: &Place<'_>,
    correlated: Option<Correlated<'_>>,
    work: &Work<'n>,
) -> Judgement {
    let mut judgement = Judgement::default();
    if !work.take(1) {
        judgement.add(Fault::nowhere(TOO_MUCH.to_owned()));
        return judgement;
    }
    if value.is_null() {
        judgement.merge(judge_type(value, node, place));
        judge_options(value, node, place, work, &mut judgement);
        return judgement;
    }
    let extras = node.extras();
    let typed = node.kind != Kind::Any || node.says(Flag::IntOrString);
    if typed || extras.is_some_and(|extras| extras.format.is_some()) {
        judgement.merge(judge_type(value, node, place));
        judgement.passed += 1;
    }
    match extras.and_then(|extras| extras.junctors.as_deref()) {
        Some(junctors) => judgement.merge(judge_junctors(value, junctors, place, correlated, work)),
        None => judgement.passed += 1,
    }
    judgement.passed += 1;
    match value {
        Value::String(text) => judge_text(text, node, place, work, &mut judgement),
        Value::Number(number) => {
            judgement.merge(number::judge(number, node, place));
            judgement.passed += 1;
        }
        Value::Array(items) => judge_list(items, node, place, correlated, work, &mut judgement),
        _ => {}
    }
    judge_options(value, node, place, work, &mut judgement);
    judgement.passed += 1;
    if value.is_object() {
        judge_object(value, node, place, correlated, work, &mut judgement);
        judgement.passed += 1;
    }
    judgement.passed += 1;
    judgement
}

fn judge_type(value: &Value, node: &Node, place: &Place<'_>) -> Judgement {
    let (either, kind) = (node.says(Flag::IntOrString), node.kind);
    let wanted = if either { "integer,string" } else { kind.name() };
    let wrong = |wanted: &str, found: &str| {
        let mut judgement = Judgement::default();
        judgement.add(Fault::wrong_type(place, wanted, found));
        judgement
    };
    let (found, held) = match value {
        Value::Null if wanted.is_empty() || node.says(Flag::Nullable) => return Judgement::passed(1),
        Value::Null => return wrong(wanted, "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) => number::type_of(number),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let takes = |name: &str| {
        if either {
            matches!(name, "integer" | "string")
        } else {
            kind.name() == name
        }
    };
    let is_whole = takes("integer") && value.as_f64().is_some_and(number::is_whole) && found == "number";
    let is_number = takes("number") && found == "integer";
    let fits = takes(found) || is_whole || is_number;
    let format = node.extras().and_then(|extras| extras.format);
    if let Some(format) = format {
        let loose = value.is_string() || value.is_array();
        if !loose && !fits && held != format.name() {
            return wrong(format.name(), held);
        }
        // Lists pass, too: that is how it always was.
        if loose && !takes("number") && !takes("integer") {
            return Judgement::passed(1);
        }
    }
    if fits {
        Judgement::passed(1)
    } else {
        wrong(wanted, found)
    }
}

fn judge_options(value: &Value, node: &Node, place: &Place<'_>, work: &Work<'_>, judgement: &mut Judgement) {
    let options = node.extras().map_or(&[] as &[Value], |extras| &extras.options);
    if options.is_empty() {
        return;
    }
    let found = options.iter().position(|option| is_option(value, option));
    work.take(found.unwrap_or(options.len()) / 8);
    if found.is_none() {
        add(judgement, work, || Fault::not_an_option(place, value, options));
    }
}

/// Adds a fault. The length of its text counts.
fn add(judgement: &mut Judgement, work: &Work<'_>, fault: impl FnOnce() -> Fault) {
    if judgement.is_full() {
        return;
    }
    let fault = fault();
    work.take(fault.size() / 64);
    judgement.add(fault);
}

/// Whether a value is an option. Numbers are compared in the form of the option.
fn is_option(value: &Value, option: &Value) -> bool {
    match (value, option) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(option)) => match (option.as_i64(), value.as_i64()) {
            (Some(option), Some(value)) => option == value,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a fraction is cut off where options are whole"
            )]
            (Some(option), None) => value.as_f64().is_some_and(|value| value as i64 == option),
            (None, _) => value.as_f64() == option.as_f64(),
        },
        _ => value == option,
    }
}

fn judge_text<'n>(text: &str, node: &'n Node, place: &Place<'_>, work: &Work<'n>, judgement: &mut Judgement) {
    judgement.passed += 1;
    let Some(extras) = node.extras() else {
        return;
    };
    judge_length(text, node, place, work, judgement);
    if let Some(format) = extras.format {
        let of_text = !matches!(
            format,
            Format::Int32 | Format::Int64 | Format::Float | Format::Double
        );
        if of_text {
            judgement.passed += 1;
            if !format.fits(text) {
                add(judgement, work, || Fault::wrong_type(place, format.name(), text));
            }
        }
    }
}

/// Length and pattern: of several things that are wrong the first is told.
fn judge_length<'n>(
    text: &str,
    node: &'n Node,
    place: &Place<'_>,
    work: &Work<'n>,
    judgement: &mut Judgement,
) {
    let Some(extras) = node.extras() else {
        return;
    };
    if let Some(bounds) = extras.bounds.as_deref()
        && (bounds.max_length.is_some() || bounds.min_length.is_some())
    {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = bounds.max_length.filter(|most| length > *most) {
            judgement.add(Fault::too_long(place, most));
            return;
        }
        if let Some(least) = bounds.min_length.filter(|least| length < *least) {
            let words = format!("should be at least {least} chars long");
            judgement.add(Fault::invalid(place, text, &words));
            return;
        }
    }
    if extras.pattern.is_empty() {
        return;
    }
    let wrong = match work.matches(&extras.pattern, text) {
        Ok(matches) => (!matches).then(|| extras.pattern.to_string()),
        Err(fault) => Some(format!("{}, but pattern is invalid: {fault}", extras.pattern)),
    };
    if let Some(pattern) = wrong {
        add(judgement, work, || {
            Fault::invalid(place, text, &format!("should match '{pattern}'"))
        });
    }
}

fn judge_list<'n>(
    items: &[Value],
    node: &'n Node,
    place: &Place<'_>,
    correlated: Option<Correlated<'_>>,
    work: &Work<'n>,
    judgement: &mut Judgement,
) {
    judgement.passed += 2;
    if let Some(inner) = node.items() {
        let old: Option<OldItems<'_>> = correlated.and_then(Correlated::old_items);
        for (index, item) in items.iter().enumerate() {
            let place = Place::Index(place, index);
            let before = correlated
                .zip(old.as_ref())
                .and_then(|(correlated, old)| correlated.item(index, old));
            judgement.merge(match before {
                Some(correlated) => ratcheted(inner, &place, correlated, work),
                None => judge(item, inner, &place, None, work),
            });
        }
    }
    let Some(bounds) = node.extras().and_then(|extras| extras.bounds.as_deref()) else {
        return;
    };
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = bounds.min_items.filter(|least| count < *least) {
        let words = format!("should have at least {least} items");
        judgement.add(Fault::invalid(place, count, &words));
    }
    if let Some(most) = bounds.max_items.filter(|most| count > *most) {
        judgement.add(Fault::too_many(place, "items", items.len(), most));
    }
}

fn judge_object<'n>(
    value: &Value,
    node: &'n Node,
    place: &Place<'_>,
    correlated: Option<Correlated<'_>>,
    work: &Work<'n>,
    judgement: &mut Judgement,
) {
    let Value::Object(fields) = value else {
        return;
    };
    let extras = node.extras();
    if let Some(bounds) = extras.and_then(|extras| extras.bounds.as_deref()) {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(least) = bounds.min_properties.filter(|least| count < *least) {
            let words = format!("should have at least {least} properties");
            judgement.add(Fault::invalid(place, count, &words));
        }
        if let Some(most) = bounds.max_properties.filter(|most| count > *most) {
            judgement.add(Fault::too_many(place, "properties", fields.len(), most));
        }
    }
    let field = |name: &str, value: &Value, node: &'n Node, at: &Place<'_>| {
        // What everybody sees in one version only cannot be compared.
        let visible = !(matches!(place, Place::Top) && matches!(name, "kind" | "apiVersion"));
        let before = correlated
            .filter(|_| visible)
            .and_then(|correlated| correlated.key(name));
        match before {
            Some(correlated) => ratcheted(node, at, correlated, work),
            None => judge(value, node, at, None, work),
        }
    };
    match node.additional() {
        Additional::Node(values) => {
            let others = fields.iter().filter(|(name, _)| node.property(name).is_none());
            for (name, value) in others {
                judgement.merge(field(name, value, values, &Place::Key(place, name)));
            }
        }
        Additional::Nothing => {
            let others = fields.keys().filter(|name| node.property(name).is_none());
            for name in others {
                add(judgement, work, || {
                    let shown = limits::display(&Place::Key(place, name), MAX_PATH_BYTES);
                    Fault::said(place, name, format!("{shown} in body is a forbidden property"))
                });
            }
        }
        Additional::Unsaid | Additional::Any => {}
    }
    // Both are sorted by name: whichever has fewer is gone through.
    if fields.len() < node.properties().len() {
        for (name, value) in fields {
            if let Some(property) = node.property(name) {
                judgement.merge(field(name, value, property, &Place::Field(place, name)));
            }
        }
    } else {
        for (name, property) in node.properties() {
            if let Some(value) = fields.get(name) {
                judgement.merge(field(name, value, property, &Place::Field(place, name)));
            }
        }
    }
    for name in extras.map_or(&[] as &[Box<str>], |extras| &extras.required) {
        if !work.take(1) {
            return;
        }
        if !fields.contains_key(&**name) {
            add(judgement, work, || Fault::required(&Place::Key(place, name)));
        }
    }
}

fn judge_junctors<'n>(
    value: &Value,
    junctors: &'n Junctors,
    place: &Place<'_>,
    correlated: Option<Correlated<'_>>,
    work: &Work<'n>,
) -> Judgement {
    let mut whole = Judgement::default();
    let named = || go::quote(&limits::display(place, MAX_PATH_BYTES));
    let one = |node: &'n Node| judge(value, node, place, correlated, work);
    if !junctors.any_of.is_empty() {
        let mut best: Option<Judgement> = None;
        let mut good = None;
        for node in &junctors.any_of {
            let judgement = one(node);
            if judgement.is_good() {
                good = Some(judgement);
                break;
            }
            if best.as_ref().is_none_or(|best| judgement.passed > best.passed) {
                best = Some(judgement);
            }
        }
        if good.is_none() {
            let text = format!("{} must validate at least one schema (anyOf)", named());
            whole.add(Fault::nowhere(text));
        }
        whole.merge(good.or(best).unwrap_or_default());
    }
    if !junctors.one_of.is_empty() {
        let mut best: Option<Judgement> = None;
        let mut good: Option<Judgement> = None;
        let mut count = 0;
        for node in &junctors.one_of {
            let judgement = one(node);
            if judgement.is_good() {
                count += 1;
                best = None;
                good.get_or_insert(judgement);
            } else if count == 0 && best.as_ref().is_none_or(|best| judgement.passed > best.passed) {
                best = Some(judgement);
            }
        }
        if count == 1 {
            whole.merge(good.unwrap_or_default());
        } else {
            let found = match count {
                0 => "Found none valid".to_owned(),
                count => format!("Found {count} valid alternatives"),
            };
            let text = format!(
                "{} must validate one and only one schema (oneOf). {found}",
                named()
            );
            whole.add(Fault::nowhere(text));
            whole.merge(best.unwrap_or_default());
        }
    }
    if !junctors.all_of.is_empty() {
        let judgements: Vec<_> = junctors.all_of.iter().map(one).collect();
        let good = judgements.iter().filter(|judgement| judgement.is_good()).count();
        let all = judgements.len();
        for judgement in judgements {
            whole.merge(judgement);
        }
        if good != all {
            let none = if good == 0 { ". None validated" } else { "" };
            let text = format!("{} must validate all the schemas (allOf){none}", named());
            whole.add(Fault::nowhere(text));
        }
    }
    if junctors.not.as_ref().is_some_and(|node| one(node).is_good()) {
        let text = format!("{} must not validate the schema (not)", named());
        whole.add(Fault::nowhere(text));
    }
    whole.passed += 1;
    whole
}
