//! Signatures with RSA keys, in both paddings.

use num_bigint::BigUint;

use super::{
    super::der::{INTEGER, Reader, SEQUENCE},
    digest::Hash,
};

const FAILED: &str = "crypto/rsa: verification error";
const LEAST_BITS: u64 = 1024;

/// Nobody has larger keys, and the time to try one grows with its cube.
const MOST_BITS: u64 = 16384;
const MOST_EXPONENT_BITS: u64 = 31;

/// Verifies a signature whose padding is all ones.
pub(super) fn verify(key: &[u8], hash: Hash, text: &[u8], signature: &[u8]) -> Result<(), String> {
    let opened = Opened::new(key, signature)?;
    let digest = hash.of(text);
    let size = u8::try_from(hash.size()).expect("a hash is short");
    let name = match hash {
        Hash::Sha256 => 1,
        Hash::Sha384 => 2,
        Hash::Sha512 => 3,
    };
    let head = [
        0x30,
        0x11 + size,
        0x30,
        0x0d,
        0x06,
        0x09,
        0x60,
        0x86,
        0x48,
        0x01,
        0x65,
        0x03,
        0x04,
        0x02,
        name,
        0x05,
        0x00,
        0x04,
        size,
    ];
    let tail = [&[0], &head[..], &digest].concat();
    let ones = (opened.bytes.len().checked_sub(2 + tail.len())).ok_or(FAILED)?;
    let expected = [&[0, 1], &vec![0xff; ones][..], &tail].concat();
    if opened.bytes == expected {
        Ok(())
    } else {
        Err(FAILED.to_owned())
    }
}

/// Verifies a signature whose padding is random. The salt is as long as the hash.
pub(super) fn verify_padded(key: &[u8], hash: Hash, text: &[u8], signature: &[u8]) -> Result<(), String> {
    let opened = Opened::new(key, signature)?;
    opened.verify_padded(hash, text).ok_or_else(|| FAILED.to_owned())
}

/// What a signature holds.
struct Opened {
    /// As many as the modulus has.
    bytes: Vec<u8>,
    /// How many bits the modulus has.
    bits: u64,
}

// --- Opened ---

impl Opened {
    fn new(key: &[u8], signature: &[u8]) -> Result<Self, String> {
        let numbers = Reader::new(key).enter(SEQUENCE).and_then(|mut numbers| {
            let modulus = numbers.next(INTEGER)?.content;
            let exponent = numbers.next(INTEGER)?.content;
            Some([modulus, exponent].map(BigUint::from_bytes_be))
        });
        let [modulus, exponent] = numbers.ok_or(FAILED)?;
        let bits = modulus.bits();
        if bits < LEAST_BITS {
            return Err(format!(
                "crypto/rsa: {bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
            ));
        }
        if exponent.bits() > MOST_EXPONENT_BITS {
            return Err("crypto/rsa: public exponent too large".to_owned());
        }
        if bits > MOST_BITS {
            return Err(FAILED.to_owned());
        }
        let size = usize::try_from(bits.div_ceil(8)).map_err(|_| FAILED)?;
        let number = BigUint::from_bytes_be(signature);
        if signature.len() != size || number >= modulus {
            return Err(FAILED.to_owned());
        }
        let digits = number.modpow(&exponent, &modulus).to_bytes_be();
        let mut bytes = vec![0; size - digits.len()];
        bytes.extend(digits);
        Ok(Opened { bytes, bits })
    }

    fn verify_padded(&self, hash: Hash, text: &[u8]) -> Option<()> {
        // The padding has one bit less than the modulus, which may make a byte.
        let free = u32::try_from((self.bits - 1) % 8).expect("a remainder is small");
        let padded = if free == 0 {
            &self.bytes[1..]
        } else {
            &self.bytes[..]
        };
        let size = hash.size();
        let (masked, rest) = padded.split_at_checked(padded.len().checked_sub(size + 1)?)?;
        let (seal, end) = rest.split_at(size);
        if end != [0xbc] {
            return None;
        }
        let mut block: Vec<_> = masked
            .iter()
            .zip(mask(hash, seal, masked.len()))
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        if free != 0 {
            *block.first_mut()? &= 0xff >> (8 - free);
        }
        let (zeros, salt) = block.split_at_checked(block.len().checked_sub(size)?)?;
        let (mark, zeros) = zeros.split_last()?;
        if *mark != 1 || zeros.iter().any(|byte| *byte != 0) {
            return None;
        }
        let sealed = [&[0; 8][..], &hash.of(text), salt].concat();
        (hash.of(&sealed) == seal).then_some(())
    }
}

/// So many bytes that follow from a seed.
fn mask(hash: Hash, seed: &[u8], length: usize) -> Vec<u8> {
    let blocks = (0u32..).flat_map(|counter| hash.of(&[seed, &counter.to_be_bytes()].concat()));
    blocks.take(length).collect()
}
