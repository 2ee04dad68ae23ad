//! The compression dictionary for SPDY/3 header blocks, from the SPDY/3 specification.

use std::sync::LazyLock;

/// Strings of the dictionary, each preceded by its length in 4 bytes.
const STRINGS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status";

/// Further strings: those with spaces, and those after them.
const MORE_STRINGS: [&str; 8] = [
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// End of the dictionary, without lengths.
const SUFFIX: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// Adler-32 checksum of the dictionary, which identifies it in a zlib stream.
pub(super) const DICTIONARY_ID: u32 = 0xe3c6_a7c2;

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::with_capacity(1423);
    for string in STRINGS
        .split(' ')
        .filter(|string| !string.is_empty())
        .chain(MORE_STRINGS)
    {
        let length = u8::try_from(string.len()).expect("all strings are shorter than 256 bytes");
        bytes.extend([0, 0, 0, length]);
        bytes.extend(string.as_bytes());
    }
    bytes.extend(SUFFIX.as_bytes());
    bytes
});

/// The dictionary.
pub(super) fn dictionary() -> &'static [u8] {
    &DICTIONARY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_matches() {
        let mut a = 1_u32;
        let mut b = 0_u32;
        for byte in dictionary() {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!((b << 16) | a, DICTIONARY_ID);
        assert_eq!(dictionary().len(), 1423);
    }
}
