//! Values in DER form, one after the other.
//!
//! Promise: any bytes are read without a panic.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// What is left of a sequence of DER values.
pub(super) struct Der<'d>(pub(super) &'d [u8]);

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadDer(pub(super) &'static str);

// --- Der ---

impl<'d> Der<'d> {
    /// The tag and the content of the next value.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'d [u8])>, BadDer> {
        const CUT: BadDer = BadDer("it ends too early");
        let [tag, rest @ ..] = self.0 else {
            return Ok(None);
        };
        let [first, rest @ ..] = rest else {
            return Err(CUT);
        };
        let (length, rest) = match usize::from(*first) {
            short @ 0..=0x7f => (short, rest),
            // Three bytes of length are sixteen megabytes; no certificate is longer.
            long @ 0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(long - 0x80).ok_or(CUT)?;
                let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return Err(BadDer("a length is odd")),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(Some((*tag, content)))
    }

    /// The content of the next value, which must have `tag`.
    pub(super) fn expect(&mut self, tag: u8, problem: &'static str) -> Result<Self, BadDer> {
        match self.next()? {
            Some((found, content)) if found == tag => Ok(Self(content)),
            _ => Err(BadDer(problem)),
        }
    }

    /// Goes behind the next value if it has `tag`.
    pub(super) fn skip(&mut self, tag: u8) {
        let mut ahead = Der(self.0);
        if matches!(ahead.next(), Ok(Some((found, _))) if found == tag) {
            self.0 = ahead.0;
        }
    }
}
