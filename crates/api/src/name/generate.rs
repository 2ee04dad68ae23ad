//! Generated names (`generateName`).

// upstream: staging/src/k8s.io/apiserver/pkg/storage/names/generate.go GenerateName

/// How much of the beginning a client asked for is kept: with what is added, the name is still a DNS label.
pub const MAX_BASE: usize = 58;

const ADDED: usize = 5;

/// No vowels, so that no offensive terms appear; no digits that look like letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The base, cut to [`MAX_BASE`] bytes, with five letters and digits after it.
///
/// `random` gives numbers of 32 evenly distributed bits.
pub fn generate(base: &str, mut random: impl FnMut() -> u32) -> String {
    let mut name = base[..base.floor_char_boundary(MAX_BASE)].to_owned();
    let kinds = u32::try_from(ALPHABET.len()).expect("the alphabet is short");
    // Numbers past the last full round would make the first letters likelier.
    let fair = u32::MAX - u32::MAX % kinds;
    for _ in 0..ADDED {
        let pick = loop {
            let number = random();
            if number < fair {
                break number % kinds;
            }
        };
        name.push(char::from(ALPHABET[pick as usize]));
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn five_characters_of_the_alphabet_are_added() {
        let mut next = 0;
        let name = generate("web-", || {
            next += 1;
            next - 1
        });
        assert_eq!(name, "web-bcdfg");
    }

    #[test]
    fn a_number_past_the_last_round_is_thrown_again() {
        let mut numbers = [u32::MAX, 26, 25, 24, 23, 22].into_iter();
        assert_eq!(generate("", || numbers.next().unwrap()), "98765");
    }

    proptest! {
        #[test]
        fn a_generated_name_fits_a_label(base in "[a-z][a-z0-9-]{0,100}", seed: u32) {
            let mut state = seed;
            let name = generate(&base, || { state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); state });
            prop_assert!(name.len() <= 63);
            prop_assert!(super::super::validate_dns1123_label(&name).is_empty());
        }

        #[test]
        fn any_base_is_cut_between_characters(base in "\\PC{0,80}") {
            let name = generate(&base, || 0);
            prop_assert!(name.len() <= MAX_BASE + ADDED);
        }
    }
}
