//! Signatures on elliptic curves.

use std::sync::OnceLock;

use num_bigint::BigUint;

use super::{
    super::der::{INTEGER, Reader, SEQUENCE},
    modular::{Field, number},
};

/// A curve: the points with `y^2 = x^3 - 3x + b`.
pub(super) struct Curve {
    name: &'static str,
    field: Field,
    b: BigUint,
    /// The numbers modulo how many points there are.
    order: Field,
    base: Point,
}

/// A point, times a number: `x / z^2`, `y / z^3`. The one without a place has a `z` of zero.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

struct Digits {
    name: &'static str,
    prime: &'static str,
    b: &'static str,
    order: &'static str,
    x: &'static str,
    y: &'static str,
}

const CURVES: [Digits; 3] = [
    Digits {
        name: "P-256",
        prime: "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        b: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
        order: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        x: "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
        y: "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
    },
    Digits {
        name: "P-384",
        prime: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
        b: "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
        order: "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        x: "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
        y: "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
    },
    Digits {
        name: "P-521",
        prime: "1ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        b: "51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
        order: "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
        x: "c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
        y: "11839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
    },
];

/// The curve of this name.
pub(super) fn curve(name: &str) -> Option<&'static Curve> {
    static KNOWN: OnceLock<Vec<Curve>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| CURVES.iter().map(Curve::new).collect());
    known.iter().find(|curve| curve.name == name)
}

/// Verifies a signature of a digest.
pub(super) fn verify(curve: &Curve, key: &[u8], digest: &[u8], signature: &[u8]) -> Option<()> {
    let order = &curve.order;
    let zero = BigUint::ZERO;
    let key = curve.point(key)?;
    let mut numbers = Reader::new(signature).enter(SEQUENCE)?;
    let mut read = || {
        let number = BigUint::from_bytes_be(numbers.next(INTEGER)?.content);
        Some(number).filter(|number| *number != zero && *number < order.prime)
    };
    let (r, s) = (read()?, read()?);
    let mut text = BigUint::from_bytes_be(digest);
    let bits = u64::try_from(digest.len()).ok()? * 8;
    // A digest with more bits than there are points loses the last ones.
    text >>= bits.saturating_sub(order.prime.bits());
    let inverse = order.inverse(&s)?;
    let text = order.mul(&(text % &order.prime), &inverse);
    let other = order.mul(&r, &inverse);
    let sum = curve.combine(&text, &other, &key);
    let inverse = curve.field.inverse(&sum.z)?;
    let x = curve.field.mul(&sum.x, &curve.field.square(&inverse));
    (x % &order.prime == r).then_some(())
}

// --- Curve ---

impl Curve {
    fn new(digits: &Digits) -> Self {
        Curve {
            name: digits.name,
            field: Field {
                prime: number(digits.prime),
            },
            b: number(digits.b),
            order: Field {
                prime: number(digits.order),
            },
            base: Point {
                x: number(digits.x),
                y: number(digits.y),
                z: BigUint::from(1u8),
            },
        }
    }

    /// The point that these bytes mean, if it is on the curve.
    fn point(&self, bytes: &[u8]) -> Option<Point> {
        let size = usize::try_from(self.field.prime.bits().div_ceil(8)).ok()?;
        let (4, rest) = bytes.split_first().map(|(form, rest)| (*form, rest))? else {
            return None;
        };
        if rest.len() != 2 * size {
            return None;
        }
        let (x, y) = rest.split_at(size);
        let [x, y] = [x, y].map(BigUint::from_bytes_be);
        let field = &self.field;
        if x >= field.prime || y >= field.prime {
            return None;
        }
        let cube = field.mul(&field.square(&x), &x);
        let right = field.add(&field.sub(&cube, &field.times(&x, 3)), &self.b);
        (field.square(&y) == right).then(|| Point {
            x,
            y,
            z: BigUint::from(1u8),
        })
    }

    /// The sum of so many times the base and so many times another point.
    fn combine(&self, of_base: &BigUint, of_other: &BigUint, other: &Point) -> Point {
        let both = self.add(&self.base, other);
        let mut sum = Point {
            x: BigUint::from(1u8),
            y: BigUint::from(1u8),
            z: BigUint::ZERO,
        };
        for bit in (0..of_base.bits().max(of_other.bits())).rev() {
            sum = self.double(&sum);
            let point = match (of_base.bit(bit), of_other.bit(bit)) {
                (false, false) => continue,
                (true, false) => &self.base,
                (false, true) => other,
                (true, true) => &both,
            };
            sum = self.add(&sum, point);
        }
        sum
    }

    fn double(&self, point: &Point) -> Point {
        let field = &self.field;
        let (delta, gamma) = (field.square(&point.z), field.square(&point.y));
        let beta = field.mul(&point.x, &gamma);
        let product = field.mul(&field.sub(&point.x, &delta), &field.add(&point.x, &delta));
        let alpha = field.times(&product, 3);
        let x = field.sub(&field.square(&alpha), &field.times(&beta, 8));
        let sum = field.square(&field.add(&point.y, &point.z));
        let z = field.sub(&field.sub(&sum, &gamma), &delta);
        let turned = field.mul(&alpha, &field.sub(&field.times(&beta, 4), &x));
        let y = field.sub(&turned, &field.times(&field.square(&gamma), 8));
        Point { x, y, z }
    }

    fn add(&self, one: &Point, other: &Point) -> Point {
        if one.z == BigUint::ZERO {
            return other.clone();
        }
        if other.z == BigUint::ZERO {
            return one.clone();
        }
        let field = &self.field;
        let scaled = |point: &Point, by: &Point| {
            let square = field.square(&by.z);
            let cube = field.mul(&square, &by.z);
            (field.mul(&point.x, &square), field.mul(&point.y, &cube))
        };
        let ((x1, y1), (x2, y2)) = (scaled(one, other), scaled(other, one));
        let (run, rise) = (field.sub(&x2, &x1), field.sub(&y2, &y1));
        if run == BigUint::ZERO && rise == BigUint::ZERO {
            return self.double(one);
        }
        let square = field.square(&run);
        let (cube, middle) = (field.mul(&square, &run), field.mul(&x1, &square));
        let x = field.sub(&field.sub(&field.square(&rise), &cube), &field.times(&middle, 2));
        let y = field.sub(&field.mul(&rise, &field.sub(&middle, &x)), &field.mul(&y1, &cube));
        let z = field.mul(&run, &field.mul(&one.z, &other.z));
        Point { x, y, z }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_times_the_base_as_there_are_points_is_nowhere() {
        for digits in &CURVES {
            let curve = curve(digits.name).unwrap();
            let sum = curve.combine(&curve.order.prime, &BigUint::ZERO, &curve.base);
            assert_eq!(sum.z, BigUint::ZERO);
        }
    }
}
