//! The order of keys: numbers in names count as numbers, and letters are after everything else.

use std::iter::Peekable;

/// The entries of a map in this order.
///
/// Merge sort by hand: the order of upstream is not total for some keys, and the sort of `std` may panic then.
pub(crate) fn in_key_order<V>(entries: Vec<(&String, V)>) -> Vec<(&String, V)> {
    if entries.len() < 2 {
        return entries;
    }
    let mut left = entries;
    let right = left.split_off(left.len() / 2);
    let mut left = in_key_order(left).into_iter().peekable();
    let mut right = in_key_order(right).into_iter().peekable();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let Some(next) = take_first(&mut left, &mut right) {
        merged.push(next);
    }
    merged
}

fn take_first<'k, V, I: Iterator<Item = (&'k String, V)>>(
    left: &mut Peekable<I>,
    right: &mut Peekable<I>,
) -> Option<(&'k String, V)> {
    match (left.peek(), right.peek()) {
        (Some((one, _)), Some((other, _))) if is_before(other, one) => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    }
}

// As Less in sorter.go of go.yaml.in/yaml/v2.
fn is_before(one: &str, other: &str) -> bool {
    let mut before: Option<(usize, char)> = None;
    let mut others = other.char_indices();
    let mut last_number_has_value = false;
    for (at, letter) in one.char_indices() {
        let Some((other_at, other_letter)) = others.next() else {
            return false;
        };
        if letter == other_letter {
            last_number_has_value = letter.is_ascii_digit()
                && (letter != '0'
                    || (before.is_some_and(|(_, c)| c.is_ascii_digit()) && last_number_has_value));
            before = Some((at, letter));
            continue;
        }
        match (letter.is_alphabetic(), other_letter.is_alphabetic()) {
            (true, true) => return letter < other_letter,
            (false, false) => {}
            (_, is_letter) => return is_letter,
        }
        // A zero behind other digits is not the beginning of a number.
        let begins = u64::from((letter == '0' || other_letter == '0') && last_number_has_value);
        let (number, digits) = number_at(&one[at..], begins);
        let (other_number, other_digits) = number_at(&other[other_at..], begins);
        return if number != other_number {
            number < other_number
        } else if digits != other_digits {
            digits < other_digits
        } else {
            letter < other_letter
        };
    }
    others.next().is_some()
}

/// The number at the beginning of a text, and how many digits it has.
fn number_at(text: &str, begins: u64) -> (u64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((begins, 0), |(number, count), digit| {
        let number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        (number, count + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[&str]) -> Vec<String> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let entries = keys.iter().map(|key| (key, ())).collect();
        in_key_order(entries)
            .into_iter()
            .map(|(key, ())| key.clone())
            .collect()
    }

    #[test]
    fn numbers_in_keys_count_as_numbers() {
        assert_eq!(sorted(&["a10", "a2", "a1"]), ["a1", "a2", "a10"]);
        assert_eq!(sorted(&["a100", "a10", "a1x", "b"]), ["a10", "a100", "a1x", "b"]);
        assert_eq!(sorted(&["10", "9", "1000", "100"]), ["9", "10", "100", "1000"]);
    }

    #[test]
    fn letters_are_after_everything_else() {
        assert_eq!(
            sorted(&["ab", "a/b", "a.b", "a", "aB"]),
            ["a", "a.b", "a/b", "aB", "ab"]
        );
        assert_eq!(sorted(&[]), [""; 0]);
    }

    #[test]
    fn many_keys_are_sorted() {
        let keys: Vec<String> = (0..1000).rev().map(|number| format!("key-{number}")).collect();
        let texts: Vec<&str> = keys.iter().map(String::as_str).collect();
        let expected: Vec<String> = (0..1000).map(|number| format!("key-{number}")).collect();
        assert_eq!(sorted(&texts), expected);
    }
}
