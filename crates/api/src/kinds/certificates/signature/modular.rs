//! Numbers modulo a prime.

use num_bigint::BigUint;

/// The field of numbers modulo a prime. All numbers that go in are smaller than it.
#[derive(Debug)]
pub(super) struct Field {
    /// The prime.
    pub(super) prime: BigUint,
}

// --- Field ---

impl Field {
    pub(super) fn add(&self, a: &BigUint, b: &BigUint) -> BigUint {
        let sum = a + b;
        if sum < self.prime { sum } else { sum - &self.prime }
    }

    pub(super) fn sub(&self, a: &BigUint, b: &BigUint) -> BigUint {
        if a < b { a + &self.prime - b } else { a - b }
    }

    pub(super) fn mul(&self, a: &BigUint, b: &BigUint) -> BigUint {
        a * b % &self.prime
    }

    /// So many times a number.
    pub(super) fn times(&self, a: &BigUint, factor: u32) -> BigUint {
        a * factor % &self.prime
    }

    pub(super) fn square(&self, a: &BigUint) -> BigUint {
        self.mul(a, a)
    }

    pub(super) fn power(&self, a: &BigUint, exponent: &BigUint) -> BigUint {
        a.modpow(exponent, &self.prime)
    }

    /// `None` for zero.
    pub(super) fn inverse(&self, a: &BigUint) -> Option<BigUint> {
        a.modinv(&self.prime)
    }
}

/// A number written in hexadecimal digits.
pub(super) fn number(digits: &str) -> BigUint {
    BigUint::parse_bytes(digits.as_bytes(), 16).expect("a constant is written in hexadecimal digits")
}
