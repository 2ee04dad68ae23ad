//! Deterministic jitter from a seed.

use std::time::Duration;

/// Returns a pseudo-random fraction of a duration. It depends only on the arguments: a restarted simulator and a concurrent one
/// compute the same delays.
pub(super) fn jitter(of: Duration, seed: u64, text: &str, turn: u32) -> Duration {
    if of.is_zero() {
        return of;
    }
    let hash = hash(seed ^ u64::from(turn).rotate_left(32), text);
    let upper = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
    of.mul_f64(f64::from(upper) / f64::from(u32::MAX))
}

/// Returns a pseudo-random number.
pub(crate) fn hash(seed: u64, text: &str) -> u64 {
    // FNV-1a, then the finalizer of SplitMix64, because the upper bits of FNV-1a are badly distributed.
    let mut mixed = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in text.bytes() {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_depends_on_the_seed_and_is_spread() {
        let second = Duration::from_secs(1);
        assert_eq!(jitter(second, 1, "a", 0), jitter(second, 1, "a", 0));
        assert_ne!(jitter(second, 1, "a", 0), jitter(second, 2, "a", 0));
        assert_ne!(jitter(second, 1, "a", 0), jitter(second, 1, "a", 1));
        let early = (0..1000).filter(|turn| jitter(second, 7, "pod", *turn) < second / 4);
        let early = early.count();
        assert!((200..300).contains(&early), "{early}");
    }
}
