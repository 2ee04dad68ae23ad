//! What expressions cost: before they run, at least and at most; and while they do.

mod calls;
mod estimate;
pub(crate) mod track;

pub(crate) use self::estimate::estimate;

/// What a text costs for each of its characters.
const TEXT: f64 = 0.1;
/// What a regular expression costs for each of its characters.
const REGEX: f64 = 0.25;
/// What a new list costs.
const LIST: u64 = 10;
/// What a question to an authorizer costs.
const AUTHORIZER_CHECK: u64 = 350_000;

/// What something costs at least and at most; also how large something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

impl CostEstimate {
    const NOTHING: CostEstimate = CostEstimate::fixed(0);
    const ONE: CostEstimate = CostEstimate::fixed(1);
    const UNKNOWN: CostEstimate = CostEstimate {
        min: 0,
        max: u64::MAX,
    };

    const fn fixed(cost: u64) -> Self {
        CostEstimate { min: cost, max: cost }
    }

    fn plus(self, other: CostEstimate) -> Self {
        CostEstimate {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn times(self, other: CostEstimate) -> Self {
        CostEstimate {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// As many times as this, rounded up.
    fn scaled(self, factor: f64) -> Self {
        CostEstimate {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    /// What covers both.
    fn union(self, other: CostEstimate) -> Self {
        CostEstimate {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are counted in numbers of this precision, and what is too large becomes the largest"
)]
fn scale(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// What a selector costs to read that has so many characters.
fn selector(length: CostEstimate) -> CostEstimate {
    let requirements = length.scaled(0.5).scaled(50.0);
    CostEstimate::fixed(LIST)
        .plus(length.scaled(TEXT))
        .plus(requirements)
}
