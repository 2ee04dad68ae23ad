//! Header blocks and their compression.
//!
//! All blocks of one direction form one zlib stream. Sent blocks are stored, not compressed: they are tiny.

use flate2::{Decompress, FlushDecompress, Status};

use super::{
    dictionary::{DICTIONARY_ID, dictionary},
    frame::FrameError,
};

/// Maximum size of a block after decompression.
const MAX_BLOCK_SIZE: usize = 64 << 10;
/// Maximum number of headers of a block.
const MAX_HEADERS: usize = 256;
/// Header of a zlib stream with a dictionary, whose ID follows.
const ZLIB_HEADER: [u8; 2] = [0x78, 0xbb];
const HAS_DICTIONARY: u8 = 0x20;

/// Headers; names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Headers(Vec<(String, String)>);

/// Decompresses the blocks of one direction.
pub(super) struct Inflater {
    /// `None` before the first block, which starts with the zlib header.
    stream: Option<Decompress>,
}

/// Encodes the blocks of one direction.
pub(in crate::server) struct Deflater {
    has_begun: bool,
}

// --- Headers ---

impl Headers {
    #[cfg(test)]
    pub(in crate::server) fn of(headers: &[(&str, &str)]) -> Self {
        Headers(
            headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// The value of a header; empty if missing. Names are case-insensitive.
    pub(in crate::server) fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.as_str())
    }

    /// Parses a decompressed block.
    fn parse(block: &[u8]) -> Result<Self, FrameError> {
        let mut rest = block;
        let count = usize::try_from(number(&mut rest)?).unwrap_or(usize::MAX);
        if count > MAX_HEADERS {
            return Err(FrameError::new("too many headers"));
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = text(&mut rest)?;
            headers.push((name, text(&mut rest)?));
        }
        if !rest.is_empty() {
            return Err(FrameError::new("header block is too long"));
        }
        Ok(Headers(headers))
    }

    fn encode(&self) -> Vec<u8> {
        let length = |length: usize| u32::try_from(length).expect("headers are short").to_be_bytes();
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

fn number(rest: &mut &[u8]) -> Result<u32, FrameError> {
    let (bytes, left) = rest
        .split_first_chunk()
        .ok_or_else(|| FrameError::new("header block is too short"))?;
    *rest = left;
    Ok(u32::from_be_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Result<String, FrameError> {
    let length = usize::try_from(number(rest)?).unwrap_or(usize::MAX);
    let (bytes, left) = rest
        .split_at_checked(length)
        .ok_or_else(|| FrameError::new("header block is too short"))?;
    *rest = left;
    String::from_utf8(bytes.to_vec()).map_err(|_| FrameError::new("header is not UTF-8"))
}

// --- Inflater ---

impl Inflater {
    /// For a new connection.
    pub(super) fn new() -> Self {
        Inflater { stream: None }
    }

    /// Decompresses and parses the next block.
    pub(super) fn read(&mut self, mut compressed: &[u8]) -> Result<Headers, FrameError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => start_stream(&mut compressed)?,
        };
        let block = inflate(&mut stream, compressed, MAX_BLOCK_SIZE)?;
        self.stream = Some(stream);
        Headers::parse(&block)
    }
}

/// Reads the zlib header, and loads the dictionary.
fn start_stream(compressed: &mut &[u8]) -> Result<Decompress, FrameError> {
    let invalid = || FrameError::new("invalid zlib header");
    let ([method, flags], rest) = compressed.split_first_chunk().ok_or_else(invalid)?;
    if method & 0x0f != 8 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
        return Err(invalid());
    }
    *compressed = rest;
    let mut stream = Decompress::new(false);
    if flags & HAS_DICTIONARY != 0 {
        let (name, rest) = compressed.split_first_chunk().ok_or_else(invalid)?;
        if u32::from_be_bytes(*name) != DICTIONARY_ID {
            return Err(FrameError::new("unknown compression dictionary"));
        }
        *compressed = rest;
        // `Decompress` cannot set a dictionary of a raw stream. Decompressing it as stored blocks puts it into the window,
        // which has the same effect.
        inflate(&mut stream, &stored_blocks(dictionary()), dictionary().len())?;
    }
    Ok(stream)
}

/// Decompresses `input`; the output is limited to `max_size` bytes.
fn inflate(stream: &mut Decompress, mut input: &[u8], max_size: usize) -> Result<Vec<u8>, FrameError> {
    let mut output = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.total_in();
        let written = stream.total_out();
        let status = stream
            .decompress(input, &mut piece, FlushDecompress::Sync)
            .map_err(|_| FrameError::new("invalid compressed headers"))?;
        let size = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let read = size(stream.total_in(), read);
        let written = size(stream.total_out(), written);
        input = input.get(read..).unwrap_or_default();
        output.extend_from_slice(piece.get(..written).unwrap_or_default());
        if output.len() > max_size {
            return Err(FrameError::new("header block is too large"));
        }
        match status {
            Status::StreamEnd => return Err(FrameError::new("end of the zlib stream")),
            // The end of the input is not the end of the output: stop only when a call makes no progress.
            _ if read == 0 && written == 0 => return Ok(output),
            _ => {}
        }
    }
}

// --- Deflater ---

impl Deflater {
    /// For a new connection.
    pub(in crate::server) fn new() -> Self {
        Deflater { has_begun: false }
    }

    /// Encodes the next block.
    pub(super) fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            bytes.extend(ZLIB_HEADER);
            bytes.extend(DICTIONARY_ID.to_be_bytes());
        }
        bytes.extend(stored_blocks(&headers.encode()));
        // An empty block works like a zlib sync flush: some decompressors return the data before it only then.
        bytes.extend(stored_blocks(&[]));
        bytes
    }
}

/// Encodes bytes as stored (uncompressed) deflate blocks.
fn stored_blocks(bytes: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(bytes.len() + 5);
    let mut push_block = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("chunks have at most 65535 bytes");
        blocks.push(0);
        blocks.extend(length.to_le_bytes());
        blocks.extend((!length).to_le_bytes());
        blocks.extend(bytes);
    };
    if bytes.is_empty() {
        push_block(bytes);
    }
    for bytes in bytes.chunks(usize::from(u16::MAX)) {
        push_block(bytes);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block of a connection, with the zlib header.
    fn first_compressed(block: &[u8]) -> Vec<u8> {
        let mut bytes = ZLIB_HEADER.to_vec();
        bytes.extend(DICTIONARY_ID.to_be_bytes());
        bytes.extend(compressed(block));
        bytes
    }

    /// A block compressed with zlib at the best level.
    fn compressed(block: &[u8]) -> Vec<u8> {
        let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
        let mut output = Vec::with_capacity(block.len() + 1024);
        deflate
            .compress_vec(block, &mut output, flate2::FlushCompress::Sync)
            .unwrap();
        output
    }

    #[test]
    fn decodes_encoded_blocks() {
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
    fn decodes_compressed_blocks() {
        let headers = Headers::of(&[
            ("streamtype", "stdin"),
            (":host", "a.b"),
            ("x", &"y".repeat(3000)),
        ]);
        let mut inflater = Inflater::new();
        assert_eq!(
            inflater.read(&first_compressed(&headers.encode())).unwrap(),
            headers
        );
        assert_eq!(inflater.read(&compressed(&headers.encode())).unwrap(), headers);
    }

    #[test]
    fn loads_dictionary() {
        // The dictionary is in the window before the first block.
        let mut stream =
            start_stream(&mut &[&ZLIB_HEADER[..], &DICTIONARY_ID.to_be_bytes()].concat()[..]).unwrap();
        let distance = dictionary().len();
        assert_eq!(stream.total_out(), distance as u64);
        assert!(inflate(&mut stream, &stored_blocks(b"x"), 1).is_ok());
    }

    #[test]
    fn rejects_decompression_bombs() {
        let bomb = first_compressed(&vec![0; 40 << 20]);
        assert!(bomb.len() < 128 << 10);
        let error = Inflater::new().read(&bomb).unwrap_err();
        assert_eq!(error.to_string(), "header block is too large");
    }

    #[test]
    fn rejects_invalid_blocks() {
        let count = |count: u32| first_compressed(&count.to_be_bytes());
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
            first_compressed(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
            first_compressed(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0]),
            first_compressed(&[0, 0, 0, 0, 7]),
        ] {
            assert!(Inflater::new().read(&bytes).is_err(), "{bytes:?}");
        }
    }
}
