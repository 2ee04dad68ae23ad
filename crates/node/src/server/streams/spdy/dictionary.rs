//! What both sides of SPDY/3 know of headers before the first one is sent.

use std::sync::LazyLock;

/// Words that headers often have, each with its length before it.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status";

/// More of them, which have spaces, or come later.
const LAST_WORDS: [&str; 8] = [
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// Texts without lengths.
const TEXTS: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The Adler-32 sum of the dictionary, by which it is named.
pub(super) const NAME: u32 = 0xe3c6_a7c2;

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS.split(' ').filter(|word| !word.is_empty()).chain(LAST_WORDS) {
        // No word is longer than a byte can tell.
        bytes.extend([0, 0, 0, u8::try_from(word.len()).unwrap_or_default()]);
        bytes.extend(word.as_bytes());
    }
    bytes.extend(TEXTS.as_bytes());
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
    fn it_is_the_one_that_is_named() {
        let mut a = 1_u32;
        let mut b = 0_u32;
        for byte in dictionary() {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!((b << 16) | a, NAME);
        assert_eq!(dictionary().len(), 1423);
    }
}
