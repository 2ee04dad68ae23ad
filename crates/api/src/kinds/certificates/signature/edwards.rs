//! Signatures with Ed25519 keys.

use std::sync::OnceLock;

use num_bigint::BigUint;

use super::{
    digest::Hash,
    modular::{Field, number},
};

/// The curve `y^2 - x^2 = 1 + d x^2 y^2`.
struct Curve {
    field: Field,
    d: BigUint,
    /// What squares to minus one.
    turn: BigUint,
    /// How many points there are.
    order: BigUint,
    base: Point,
}

/// A point, times a number: `x / z`, `y / z`, and `t = x y / z`.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
    t: BigUint,
}

const SIZE: usize = 32;
const ORDER: &str = "1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed";

/// Verifies a signature of a text.
pub(super) fn verify(key: &[u8], text: &[u8], signature: &[u8]) -> Option<()> {
    let curve = Curve::get();
    let (point, scalar) = signature.split_at_checked(SIZE)?;
    let scalar = Some(BigUint::from_bytes_le(scalar)).filter(|_| scalar.len() == SIZE)?;
    if scalar >= curve.order {
        return None;
    }
    let owner = curve.decode(key)?;
    let digest = Hash::Sha512.of(&[point, key, text].concat());
    let challenge = BigUint::from_bytes_le(&digest) % &curve.order;
    let sum = curve.add(
        &curve.times(&scalar, &curve.base),
        &curve.times(&challenge, &curve.negative(&owner)),
    );
    (curve.encode(&sum)? == point).then_some(())
}

// --- Curve ---

impl Curve {
    fn get() -> &'static Curve {
        static CURVE: OnceLock<Curve> = OnceLock::new();
        CURVE.get_or_init(|| {
            let one = BigUint::from(1u8);
            let prime = (&one << 255) - 19u8;
            let field = Field { prime };
            let fraction = |above: u32, below: u32| {
                let below = field.inverse(&BigUint::from(below)).expect("it is not zero");
                field.times(&below, above)
            };
            let d = field.sub(&BigUint::ZERO, &fraction(121_665, 121_666));
            let turn = field.power(&BigUint::from(2u8), &((&field.prime - 1u8) >> 2));
            let y = fraction(4, 5);
            let nowhere = Point::nowhere();
            let mut curve = Curve {
                field,
                d,
                turn,
                order: number(ORDER),
                base: nowhere,
            };
            curve.base = curve.lift(y, false).expect("the base is on the curve");
            curve
        })
    }

    /// The point with this `y`, and the `x` that is odd or even.
    fn lift(&self, y: BigUint, odd: bool) -> Option<Point> {
        let field = &self.field;
        let one = BigUint::from(1u8);
        let square = field.square(&y);
        let below = field.inverse(&field.add(&field.mul(&self.d, &square), &one))?;
        let wanted = field.mul(&field.sub(&square, &one), &below);
        let mut x = field.power(&wanted, &((&field.prime + 3u8) >> 3));
        if field.square(&x) != wanted {
            x = field.mul(&x, &self.turn);
        }
        if field.square(&x) != wanted {
            return None;
        }
        if x.bit(0) != odd {
            x = field.sub(&BigUint::ZERO, &x);
        }
        let t = field.mul(&x, &y);
        Some(Point { x, y, z: one, t })
    }

    fn decode(&self, bytes: &[u8]) -> Option<Point> {
        let mut bytes: [u8; SIZE] = bytes.try_into().ok()?;
        let odd = bytes[SIZE - 1] & 0x80 != 0;
        bytes[SIZE - 1] &= 0x7f;
        let y = BigUint::from_bytes_le(&bytes);
        self.lift(y % &self.field.prime, odd)
    }

    fn encode(&self, point: &Point) -> Option<Vec<u8>> {
        let inverse = self.field.inverse(&point.z)?;
        let x = self.field.mul(&point.x, &inverse);
        let mut bytes = self.field.mul(&point.y, &inverse).to_bytes_le();
        bytes.resize(SIZE, 0);
        if x.bit(0) {
            bytes[SIZE - 1] |= 0x80;
        }
        Some(bytes)
    }

    fn negative(&self, point: &Point) -> Point {
        Point {
            x: self.field.sub(&BigUint::ZERO, &point.x),
            t: self.field.sub(&BigUint::ZERO, &point.t),
            ..point.clone()
        }
    }

    fn times(&self, factor: &BigUint, point: &Point) -> Point {
        let mut sum = Point::nowhere();
        for bit in (0..factor.bits()).rev() {
            sum = self.add(&sum, &sum);
            if factor.bit(bit) {
                sum = self.add(&sum, point);
            }
        }
        sum
    }

    /// Holds for any two points, also for twice the same.
    fn add(&self, one: &Point, other: &Point) -> Point {
        let field = &self.field;
        let minus = |point: &Point| field.sub(&point.y, &point.x);
        let plus = |point: &Point| field.add(&point.y, &point.x);
        let low = field.mul(&minus(one), &minus(other));
        let high = field.mul(&plus(one), &plus(other));
        let bend = field.times(&field.mul(&self.d, &field.mul(&one.t, &other.t)), 2);
        let scale = field.times(&field.mul(&one.z, &other.z), 2);
        let (across, along) = (field.sub(&high, &low), field.add(&high, &low));
        let (near, far) = (field.sub(&scale, &bend), field.add(&scale, &bend));
        Point {
            x: field.mul(&across, &near),
            y: field.mul(&far, &along),
            z: field.mul(&near, &far),
            t: field.mul(&across, &along),
        }
    }
}

// --- Point ---

impl Point {
    /// The point that changes nothing when it is added.
    fn nowhere() -> Self {
        Point {
            x: BigUint::ZERO,
            y: BigUint::from(1u8),
            z: BigUint::from(1u8),
            t: BigUint::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_times_the_base_as_there_are_points_is_nowhere() {
        let curve = Curve::get();
        let sum = curve.times(&curve.order, &curve.base);
        assert_eq!(curve.encode(&sum), curve.encode(&Point::nowhere()));
        assert_ne!(curve.encode(&curve.base), curve.encode(&Point::nowhere()));
    }
}
