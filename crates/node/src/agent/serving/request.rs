//! When a new certificate is needed.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::pair::Names;

/// A certificate that we hold, as far as its use is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) names: Names,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// When a certificate is to be replaced: after seven to nine tenths of its life, of other agents at other moments.
pub(super) fn renewal(held: &Held, random: u8) -> Timestamp {
    let life = Duration::try_from(held.to.duration_since(held.from)).unwrap_or_default();
    let part = 700 + u32::from(random) * 200 / 256;
    held.from + life / 1000 * part
}

/// Whether a certificate is still good: it names what the node is called now, and its time has not come.
pub(super) fn is_good(held: &Held, names: &Names, now: Timestamp, random: u8) -> bool {
    held.names == *names && held.from <= now && now < renewal(held, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_replaced_before_its_end_and_with_its_names() {
        let names = |names: &[&str]| Names {
            node: "n".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let held = Held {
            names: names(&["n", "10.0.0.1"]),
            from: at(0),
            to: at(1000),
        };
        assert!(is_good(&held, &held.names, at(699), 0));
        assert!(!is_good(&held, &held.names, at(700), 0));
        assert!(is_good(&held, &held.names, at(890), 255));
        assert!(!is_good(&held, &held.names, at(900), 255));
        assert!(!is_good(&held, &names(&["n", "10.0.0.2"]), at(1), 0));
        assert!(!is_good(&held, &held.names, at(-1), 0));
    }
}
