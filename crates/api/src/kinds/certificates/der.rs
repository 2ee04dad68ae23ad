//! A reader of DER, for the little that the rules look at.
//!
//! Promises: never reads past its end, and takes one form of each length only.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a part that has only a number, and holds others.
pub(super) const fn part(number: u8) -> u8 {
    0xa0 | number
}

/// Elements, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'d> {
    rest: &'d [u8],
}

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'d> {
    /// Class, form and number, as written.
    pub(super) tag: u8,
    /// What it holds.
    pub(super) content: &'d [u8],
    /// Tag, length and content.
    pub(super) whole: &'d [u8],
}

// --- Reader ---

impl<'d> Reader<'d> {
    pub(super) fn new(bytes: &'d [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever it is.
    pub(super) fn any(&mut self) -> Option<Element<'d>> {
        let (&tag, after) = self.rest.split_first()?;
        // Numbers beyond 30 take more bytes; nothing the rules look at has them.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, after) = after.split_first()?;
        let (length, after) = match first {
            0..=0x7f => (usize::from(first), after),
            0x81..=0x84 => {
                let (digits, after) = after.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits
                    .iter()
                    .fold(0usize, |sum, digit| sum << 8 | usize::from(*digit));
                // Short lengths are written short.
                if digits[0] == 0 || length < 0x80 {
                    return None;
                }
                (length, after)
            }
            _ => return None,
        };
        let (content, after) = after.split_at_checked(length)?;
        let whole = &self.rest[..self.rest.len() - after.len()];
        self.rest = after;
        Some(Element { tag, content, whole })
    }

    /// The next element, which must have this tag.
    pub(super) fn next(&mut self, tag: u8) -> Option<Element<'d>> {
        self.optional(tag)
    }

    /// The elements inside the next one, which must have this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Reader<'d>> {
        self.next(tag).map(|element| Reader::new(element.content))
    }

    /// The next element, if it has this tag. Else nothing is read.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Element<'d>> {
        let before = *self;
        let element = self.any().filter(|element| element.tag == tag);
        if element.is_none() {
            *self = before;
        }
        element
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_hold_elements() {
        let mut reader = Reader::new(&[SEQUENCE, 3, INTEGER, 1, 7, BOOLEAN, 0]);
        let mut inner = reader.enter(SEQUENCE).unwrap();
        assert!(inner.next(BOOLEAN).is_none());
        assert_eq!(inner.next(INTEGER).unwrap().content, [7]);
        assert!(inner.is_empty() && !reader.is_empty());
    }

    #[test]
    fn a_length_has_one_form() {
        assert!(Reader::new(&[4, 0x81, 1, 0]).any().is_none());
        assert!(Reader::new(&[4, 0x80, 0, 0]).any().is_none());
        assert!(Reader::new(&[4, 2, 0]).any().is_none());
        let long = [&[4, 0x81, 0x80][..], &[0; 0x80]].concat();
        assert_eq!(Reader::new(&long).any().unwrap().content.len(), 0x80);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while let Some(element) = reader.any() {
                prop_assert!(element.content.len() < element.whole.len());
            }
        }
    }
}
