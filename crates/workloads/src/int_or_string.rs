//! Numbers, or texts that stand for one.

use serde::Deserialize;

/// A number, or a text: a percentage such as `25%`, or the name of a port.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go IntOrString
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(Box<str>),
}

/// How fractions become whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next larger one.
    Up,
    /// To the next smaller one.
    Down,
}

// --- IntOrString ---

impl IntOrString {
    /// The number, or the percentage of `total`. A text that is no percentage counts as zero; validation rejects it.
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go GetScaledValueFromIntOrPercent
    pub fn scaled_value(&self, total: i32, rounding: Rounding) -> i32 {
        match self {
            IntOrString::Int(count) => *count,
            IntOrString::String(text) => {
                let percent = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse::<i32>().ok());
                let hundredths = i64::from(percent.unwrap_or(0)) * i64::from(total);
                let hundredths = match rounding {
                    Rounding::Up => hundredths + 99,
                    Rounding::Down => hundredths,
                };
                i32::try_from(hundredths.div_euclid(100)).unwrap_or(i32::MAX)
            }
        }
    }
}

impl Default for IntOrString {
    fn default() -> Self {
        IntOrString::Int(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_percentages_up_or_down() {
        let percent = |text: &str| IntOrString::String(text.into());
        let cases = [
            (percent("25%"), 10, 3, 2),
            (percent("25%"), 4, 1, 1),
            (percent("1%"), 1, 1, 0),
            (percent("0%"), 7, 0, 0),
            (percent("150%"), 2, 3, 3),
            (percent("many"), 2, 0, 0),
            (IntOrString::Int(5), 2, 5, 5),
        ];
        for (value, total, up, down) in cases {
            let scaled = [Rounding::Up, Rounding::Down].map(|rounding| value.scaled_value(total, rounding));
            assert_eq!(scaled, [up, down], "{value:?} of {total}");
        }
    }
}
