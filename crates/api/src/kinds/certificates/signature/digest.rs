//! The second family of secure hashes.
//!
//! The constants are fractions of roots of the first primes, and are calculated on first use.

use std::sync::OnceLock;

use num_bigint::BigUint;

/// A hash of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The first 64 bits of the fractions of the roots of the first 80 primes.
struct Constants {
    square: Vec<u64>,
    cubic: Vec<u64>,
}

// --- Hash ---

impl Hash {
    /// How many bytes it has.
    pub(super) fn size(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// The hash of a text.
    pub(super) fn of(self, text: &[u8]) -> Vec<u8> {
        let constants = Constants::get();
        let mut hash = match self {
            Hash::Sha256 => small(constants, text),
            Hash::Sha384 => large(constants, &constants.square[8..16], text),
            Hash::Sha512 => large(constants, &constants.square[..8], text),
        };
        hash.truncate(self.size());
        hash
    }
}

// --- Constants ---

impl Constants {
    fn get() -> &'static Constants {
        static CONSTANTS: OnceLock<Constants> = OnceLock::new();
        CONSTANTS.get_or_init(|| {
            let prime = |number: &u32| (2..*number).all(|divisor| !number.is_multiple_of(divisor));
            let primes: Vec<_> = (2..).filter(prime).take(80).map(BigUint::from).collect();
            let fraction = |root: BigUint| root.iter_u64_digits().next().unwrap_or_default();
            let roots = |shift: u32, root: fn(&BigUint) -> BigUint| {
                let primes = primes.iter();
                primes.map(|prime| fraction(root(&(prime << shift)))).collect()
            };
            Constants {
                square: roots(128, BigUint::sqrt),
                cubic: roots(192, BigUint::cbrt),
            }
        })
    }
}

/// Defines a hash over words of one size: how often they are mixed, and by how much each step turns or shifts them.
macro_rules! hash {
    ($name:ident, $word:ty, $rounds:literal, $a:expr, $e:expr, $old:expr, $new:expr) => {
        fn $name(mut state: [$word; 8], constants: &[$word], text: &[u8]) -> Vec<u8> {
            const WORD: usize = size_of::<$word>();
            let turned = |word: $word, by: [u32; 3]| {
                word.rotate_right(by[0]) ^ word.rotate_right(by[1]) ^ word.rotate_right(by[2])
            };
            let shifted = |word: $word, by: [u32; 3]| {
                word.rotate_right(by[0]) ^ word.rotate_right(by[1]) ^ (word >> by[2])
            };
            for block in padded(text, WORD).chunks_exact(16 * WORD) {
                let mut words: Vec<$word> = block
                    .chunks_exact(WORD)
                    .map(|bytes| <$word>::from_be_bytes(bytes.try_into().expect("a chunk is a word")))
                    .collect();
                for at in 16..$rounds {
                    let word = words[at - 16]
                        .wrapping_add(shifted(words[at - 15], $old))
                        .wrapping_add(words[at - 7])
                        .wrapping_add(shifted(words[at - 2], $new));
                    words.push(word);
                }
                let mut now = state;
                for (word, constant) in words.iter().zip(constants) {
                    let [a, b, c, d, e, f, g, h] = now;
                    let first = h
                        .wrapping_add(turned(e, $e))
                        .wrapping_add((e & f) ^ (!e & g))
                        .wrapping_add(*constant)
                        .wrapping_add(*word);
                    let second = turned(a, $a).wrapping_add((a & b) ^ (a & c) ^ (b & c));
                    now = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
                }
                for (word, now) in state.iter_mut().zip(now) {
                    *word = word.wrapping_add(now);
                }
            }
            state.iter().flat_map(|word| word.to_be_bytes()).collect()
        }
    };
}

hash!(
    mix_small,
    u32,
    64,
    [2, 13, 22],
    [6, 11, 25],
    [7, 18, 3],
    [17, 19, 10]
);
hash!(
    mix_large,
    u64,
    80,
    [28, 34, 39],
    [14, 18, 41],
    [1, 8, 7],
    [19, 61, 6]
);

fn small(constants: &Constants, text: &[u8]) -> Vec<u8> {
    let upper = |word: &u64| u32::try_from(word >> 32).expect("half of a word");
    let state: Vec<_> = constants.square[..8].iter().map(upper).collect();
    let constants: Vec<_> = constants.cubic[..64].iter().map(upper).collect();
    mix_small(state.try_into().expect("there are eight"), &constants, text)
}

fn large(constants: &Constants, state: &[u64], text: &[u8]) -> Vec<u8> {
    mix_large(state.try_into().expect("there are eight"), &constants.cubic, text)
}

/// A text with a mark, zeros, and its length in bits, up to a whole number of blocks of 16 words.
fn padded(text: &[u8], word: usize) -> Vec<u8> {
    let mut padded = text.to_vec();
    padded.push(0x80);
    let rest = (padded.len() + 2 * word) % (16 * word);
    if rest != 0 {
        padded.resize(padded.len() + 16 * word - rest, 0);
    }
    let bits = u128::try_from(text.len()).expect("a length fits") * 8;
    padded.extend(&bits.to_be_bytes()[16 - 2 * word..]);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        BigUint::from_bytes_be(bytes).to_str_radix(16)
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(
            hex(&Hash::Sha256.of(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&Hash::Sha256.of(b"")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            hex(&Hash::Sha384.of(b"abc")),
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
        );
        assert_eq!(
            hex(&Hash::Sha512.of(b"abc")),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
    }

    #[test]
    fn the_length_of_a_text_may_need_a_block_of_its_own() {
        for (length, blocks) in [(55, 1), (56, 2), (119, 2), (120, 3)] {
            assert_eq!(padded(&vec![0; length], 4).len(), 64 * blocks);
        }
    }
}
