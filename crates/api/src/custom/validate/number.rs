//! Numbers: ranges of types, bounds, and multiples.

use serde_json::{Number, Value};

use super::{
    super::node::{Bounds, Flag, Kind, Node},
    fault::{Fault, Judgement},
    format::Format,
    place::Place,
};
use crate::{field::BadValue, go};

/// The largest whole number that a float holds with all below it.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// A number as programs hold it.
#[derive(Clone, Copy, Debug)]
enum Held {
    Whole(i64),
    Float(f64),
}

/// Whether a number is whole although it is written as a fraction.
pub(super) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > SAFE {
        return false;
    }
    let nearest = number.trunc();
    if number.fract() == 0.0 {
        return true;
    }
    let (size, other) = (number.abs(), nearest.abs());
    other != 0.0 && (number - nearest).abs() / (size + other) < 1e-9
}

/// The name of the type of a number as programs hold it, and its format.
pub(super) fn type_of(number: &Number) -> (&'static str, &'static str) {
    if number.is_i64() {
        ("integer", "int64")
    } else {
        ("number", "float64")
    }
}

/// Judges a number.
pub(super) fn judge(number: &Number, node: &Node, place: &Place<'_>) -> Judgement {
    let mut judgement = Judgement::passed(1);
    let held = Held::of(number);
    let extras = node.extras();
    let format = extras
        .and_then(|extras| extras.format)
        .filter(|format| match node.kind {
            Kind::Integer => matches!(format, Format::Int32 | Format::Int64),
            Kind::Number => matches!(format, Format::Float | Format::Double),
            _ => false,
        });
    let range = Range {
        kind: node.kind,
        format,
    };
    let shown = Value::Number(number.clone());
    if let Some(text) = range.fault(held, "Checked", place) {
        judgement.add(Fault::nowhere(text));
    }
    let Some(bounds) = extras.and_then(|extras| extras.bounds.as_deref()) else {
        return judgement;
    };
    multiple(held, bounds, &range, place, &mut judgement);
    let exclusive = node.says(Flag::ExclusiveMinimum);
    if let Some(minimum) = bounds.minimum {
        let (below, bound) = range.bound(held, minimum, "Minimum boundary", place, &mut judgement);
        let wrong = below.is_lt() || (exclusive && below.is_eq());
        if wrong {
            let words = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let words = format!("should be {words} {bound}");
            judgement.add(Fault::invalid(place, &shown, &words));
        }
    }
    let exclusive = node.says(Flag::ExclusiveMaximum);
    if let Some(maximum) = bounds.maximum {
        let (above, bound) = range.bound(held, maximum, "Maximum boundary", place, &mut judgement);
        let wrong = above.is_gt() || (exclusive && above.is_eq());
        if wrong {
            let words = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let words = format!("should be {words} {bound}");
            judgement.add(Fault::invalid(place, &shown, &words));
        }
    }
    judgement
}

fn multiple(held: Held, bounds: &Bounds, range: &Range, place: &Place<'_>, judgement: &mut Judgement) {
    let Some(factor) = bounds.multiple_of else {
        return;
    };
    let fits = range.fault(Held::Float(factor), "MultipleOf", place);
    let whole = match (held, fits) {
        (Held::Whole(number), None) => Some((number, truncated(factor))),
        (_, None) => None,
        (_, Some(text)) => {
            judgement.add(Fault::nowhere(text));
            None
        }
    };
    let (good, shown, value) = match whole {
        Some((_, divisor)) if divisor <= 0 => {
            let text = format!("factor MultipleOf declared for {place} must be positive: {divisor}");
            judgement.add(Fault::said(place, divisor, text));
            return;
        }
        Some((number, divisor)) => (
            number % divisor == 0,
            divisor.to_string(),
            BadValue::Integer(number),
        ),
        None if factor <= 0.0 => {
            let shown = go::float(factor);
            let text = format!("factor MultipleOf declared for {place} must be positive: {shown}");
            judgement.add(Fault::said(place, Value::from(factor), text));
            return;
        }
        None => {
            let number = held.float();
            let times = if factor < 1.0 {
                1.0 / factor * number
            } else {
                number / factor
            };
            (
                is_whole(times),
                go::float(factor),
                BadValue::Json(Value::from(number)),
            )
        }
    };
    if !good {
        judgement.add(Fault::invalid(
            place,
            value,
            &format!("should be a multiple of {shown}"),
        ));
    }
}

/// What a type and its format can hold.
struct Range {
    kind: Kind,
    format: Option<Format>,
}

impl Range {
    /// Why a number does not fit, if it does not.
    fn fault(&self, held: Held, what: &str, place: &Place<'_>) -> Option<String> {
        let fits = match (self.kind, self.format) {
            (Kind::Integer, Some(Format::Int32)) => {
                held.whole().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Kind::Integer, _) => held.whole().is_some(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "that it becomes infinite is what is asked"
            )]
            (_, Some(Format::Float)) => (held.float() as f32).is_finite(),
            _ => true,
        };
        if fits {
            return None;
        }
        let kind = self.kind.name();
        Some(match self.format {
            Some(format) => format!(
                "{what} value must be of type {kind} with format {} in {place}",
                format.name()
            ),
            None => format!("{what} value must be of type {kind} (default format) in {place}"),
        })
    }

    /// How a number compares to a bound, and the bound as it is told.
    fn bound(
        &self,
        held: Held,
        bound: f64,
        what: &str,
        place: &Place<'_>,
        judgement: &mut Judgement,
    ) -> (std::cmp::Ordering, String) {
        let fault = self.fault(Held::Float(bound), what, place);
        if let (Held::Whole(number), None) = (held, &fault) {
            let bound = truncated(bound);
            return (number.cmp(&bound), bound.to_string());
        }
        if let Some(text) = fault {
            judgement.add(Fault::nowhere(text));
        }
        let order = held
            .float()
            .partial_cmp(&bound)
            .unwrap_or(std::cmp::Ordering::Equal);
        (order, go::float(bound))
    }
}

// --- Held ---

impl Held {
    fn of(number: &Number) -> Held {
        match number.as_i64() {
            Some(whole) => Held::Whole(whole),
            None => Held::Float(number.as_f64().unwrap_or_default()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "bounds are floats for everybody")]
    fn float(self) -> f64 {
        match self {
            Held::Whole(number) => number as f64,
            Held::Float(number) => number,
        }
    }

    /// The number, if it is whole and fits into 64 bits.
    fn whole(self) -> Option<i64> {
        match self {
            Held::Whole(number) => Some(number),
            Held::Float(number) => {
                (number.fract() == 0.0 && number.abs() < 9.3e18).then(|| truncated(number))
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "what does not fit becomes the nearest that does"
)]
fn truncated(number: f64) -> i64 {
    number as i64
}
