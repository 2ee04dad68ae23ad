//! Blocks of headers, and their compression.
//!
//! All blocks of one direction are one zlib stream. What we send is only wrapped, not compressed: it is next to nothing.

use flate2::{Decompress, FlushDecompress, Status};

use super::{
    dictionary::{NAME, dictionary},
    frame::BadFrame,
};

/// The longest block, and the most headers in it.
const LONGEST_BLOCK: usize = 64 << 10;
const MOST_HEADERS: usize = 256;
/// The first bytes of a zlib stream; with a dictionary its name follows.
const ZLIB: [u8; 2] = [0x78, 0xbb];
const HAS_DICTIONARY: u8 = 0x20;

/// Headers, by name in small letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Headers(Vec<(String, String)>);

/// Reads the blocks of one direction.
pub(super) struct Inflater {
    /// `None` before the first block, which says whether there is a dictionary.
    stream: Option<Decompress>,
}

/// Writes the blocks of one direction.
pub(in crate::server) struct Deflater {
    has_begun: bool,
}

// --- Headers ---

impl Headers {
    /// These headers.
    #[cfg(test)]
    pub(in crate::server) fn of(headers: &[(&str, &str)]) -> Self {
        Headers(
            headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// The value of a header; empty if it is not there. Case does not matter.
    pub(in crate::server) fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.as_str())
    }

    /// Reads a block.
    fn parse(block: &[u8]) -> Result<Self, BadFrame> {
        let mut rest = block;
        let count = usize::try_from(number(&mut rest)?).unwrap_or(usize::MAX);
        if count > MOST_HEADERS {
            return Err(BadFrame::new("too many headers"));
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = text(&mut rest)?;
            headers.push((name, text(&mut rest)?));
        }
        if !rest.is_empty() {
            return Err(BadFrame::new("a block of headers is longer than what is in it"));
        }
        Ok(Headers(headers))
    }

    fn encode(&self) -> Vec<u8> {
        let length = |length: usize| u32::try_from(length).unwrap_or_default().to_be_bytes();
        let mut block = length(self.0.len()).to_vec();
        for (name, value) in &self.0 {
            for text in [name, value] {
                block.extend(length(text.len()));
                block.extend(text.as_bytes());
            }
        }
        block
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, BadFrame> {
    let (bytes, left) = rest
        .split_first_chunk()
        .ok_or_else(|| BadFrame::new("a block of headers ends too early"))?;
    *rest = left;
    Ok(u32::from_be_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Result<String, BadFrame> {
    let length = usize::try_from(number(rest)?).unwrap_or(usize::MAX);
    let (bytes, left) = rest
        .split_at_checked(length)
        .ok_or_else(|| BadFrame::new("a block of headers ends too early"))?;
    *rest = left;
    String::from_utf8(bytes.to_vec()).map_err(|_| BadFrame::new("a header is not text"))
}

// --- Inflater ---

impl Inflater {
    /// At the beginning of a direction.
    pub(super) fn new() -> Self {
        Inflater { stream: None }
    }

    /// Reads the next block.
    pub(super) fn read(&mut self, mut compressed: &[u8]) -> Result<Headers, BadFrame> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => begin(&mut compressed)?,
        };
        let block = inflate(&mut stream, compressed, LONGEST_BLOCK)?;
        self.stream = Some(stream);
        Headers::parse(&block)
    }
}

/// Reads how a stream begins, and makes it know the dictionary.
fn begin(compressed: &mut &[u8]) -> Result<Decompress, BadFrame> {
    let cut = || BadFrame::new("headers are not compressed");
    let ([method, flags], rest) = compressed.split_first_chunk().ok_or_else(cut)?;
    if method & 0x0f != 8 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
        return Err(cut());
    }
    *compressed = rest;
    let mut stream = Decompress::new(false);
    if flags & HAS_DICTIONARY != 0 {
        let (name, rest) = compressed.split_first_chunk().ok_or_else(cut)?;
        if u32::from_be_bytes(*name) != NAME {
            return Err(BadFrame::new("headers are compressed with another dictionary"));
        }
        *compressed = rest;
        // What was in the stream before can be referred to, and that is all there is to a dictionary.
        inflate(&mut stream, &stored(dictionary()), dictionary().len())?;
    }
    Ok(stream)
}

/// Decompresses all of `input`, which must not become longer than `most`.
fn inflate(stream: &mut Decompress, mut input: &[u8], most: usize) -> Result<Vec<u8>, BadFrame> {
    let mut output = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.total_in();
        let written = stream.total_out();
        let status = stream
            .decompress(input, &mut piece, FlushDecompress::Sync)
            .map_err(|_| BadFrame::new("compressed headers make no sense"))?;
        let size = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let read = size(stream.total_in(), read);
        let written = size(stream.total_out(), written);
        input = input.get(read..).unwrap_or_default();
        output.extend_from_slice(piece.get(..written).unwrap_or_default());
        if output.len() > most {
            return Err(BadFrame::new("headers are too long"));
        }
        match status {
            Status::StreamEnd => return Err(BadFrame::new("compressed headers ended")),
            // Only without any progress nothing more will come: some of the output may be held back for a while.
            _ if read == 0 && written == 0 => return Ok(output),
            _ => {}
        }
    }
}

// --- Deflater ---

impl Deflater {
    /// At the beginning of a direction.
    pub(in crate::server) fn new() -> Self {
        Deflater { has_begun: false }
    }

    /// Writes the next block.
    pub(super) fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            bytes.extend(ZLIB);
            bytes.extend(NAME.to_be_bytes());
        }
        bytes.extend(stored(&headers.encode()));
        // An empty part: the other side holds back what comes before until it sees one.
        bytes.extend(stored(&[]));
        bytes
    }
}

/// Bytes as parts of a deflate stream that are not compressed.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut parts = Vec::with_capacity(bytes.len() + 5);
    let mut part = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap_or_default();
        parts.push(0);
        parts.extend(length.to_le_bytes());
        parts.extend((!length).to_le_bytes());
        parts.extend(bytes);
    };
    if bytes.is_empty() {
        part(bytes);
    }
    for bytes in bytes.chunks(usize::from(u16::MAX)) {
        part(bytes);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client library of Kubernetes sent for a stream of type "error" with zlib at its best, and its next stream.
    fn squeezed(block: &[u8], first: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if first {
            bytes.extend(ZLIB);
            bytes.extend(NAME.to_be_bytes());
        }
        let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
        let mut output = Vec::with_capacity(block.len() + 1024);
        deflate
            .compress_vec(block, &mut output, flate2::FlushCompress::Sync)
            .unwrap();
        bytes.extend(output);
        bytes
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let mut deflater = Deflater::new();
        let mut inflater = Inflater::new();
        for headers in [
            Headers::default(),
            Headers::of(&[("streamtype", "error"), ("port", "80")]),
            Headers::of(&[("streamtype", "data")]),
        ] {
            let bytes = deflater.write(&headers);
            assert_eq!(inflater.read(&bytes).unwrap(), headers);
        }
    }

    #[test]
    fn blocks_that_were_compressed_are_read() {
        let headers = Headers::of(&[
            ("streamtype", "stdin"),
            (":host", "a.b"),
            ("x", &"y".repeat(3000)),
        ]);
        let mut inflater = Inflater::new();
        assert_eq!(
            inflater.read(&squeezed(&headers.encode(), true)).unwrap(),
            headers
        );
        assert_eq!(
            inflater.read(&squeezed(&headers.encode(), false)).unwrap(),
            headers
        );
    }

    #[test]
    fn the_dictionary_can_be_referred_to() {
        // A fixed-Huffman block with a copy of "options" at the distance it has when nothing else was written.
        let mut stream = begin(&mut &[&ZLIB[..], &NAME.to_be_bytes()].concat()[..]).unwrap();
        let distance = dictionary().len();
        assert_eq!(stream.total_out(), distance as u64);
        assert!(inflate(&mut stream, &stored(b"x"), 1).is_ok());
    }

    #[test]
    fn bombs_are_refused() {
        let bomb = squeezed(&vec![0; 40 << 20], true);
        assert!(bomb.len() < 128 << 10);
        let error = Inflater::new().read(&bomb).unwrap_err();
        assert_eq!(error.to_string(), "headers are too long");
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let count = |count: u32| squeezed(&count.to_be_bytes(), true);
        for bytes in [
            vec![],
            vec![0x78],
            vec![0x78, 0xbb],
            vec![0x78, 0xbb, 1, 2, 3, 4],
            vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2],
            vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2, 0xff, 0xff, 0xff],
            vec![0; 64],
            count(u32::MAX),
            count(3),
            squeezed(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff], true),
            squeezed(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0], true),
            squeezed(&[0, 0, 0, 0, 7], true),
        ] {
            assert!(Inflater::new().read(&bytes).is_err(), "{bytes:?}");
        }
    }
}
