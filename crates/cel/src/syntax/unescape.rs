//! The value of a quoted string or bytes literal.

// upstream: vendor/github.com/google/cel-go/parser/unescape.go unescape, unescapeChar

const STUCK: &str = "unable to unescape string";
const OCTAL: &str = "unable to unescape octal sequence in string";
const POINT: &str = "invalid unicode code point";

/// What escapes stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LiteralKind {
    /// Characters.
    Text,
    /// Bytes.
    Bytes,
}

/// Reads a text, with its quotes and the letter before them.
pub(super) fn text(quoted: &str) -> Result<String, &'static str> {
    let bytes = read(quoted, LiteralKind::Text)?;
    String::from_utf8(bytes).map_err(|_| STUCK)
}

/// Reads bytes, with the quotes and without the `b`.
pub(super) fn bytes(quoted: &str) -> Result<Vec<u8>, &'static str> {
    read(quoted, LiteralKind::Bytes)
}

fn read(quoted: &str, kind: LiteralKind) -> Result<Vec<u8>, &'static str> {
    let raw = quoted.starts_with(['r', 'R']);
    let quoted = if raw { &quoted[1..] } else { quoted };
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''")) {
        3
    } else {
        1
    };
    let inner = quoted
        .get(quotes..quoted.len().saturating_sub(quotes))
        .ok_or(STUCK)?;
    // Line ends are one character, however they were written.
    let inner = inner.replace("\r\n", "\n").replace('\r', "\n");
    if raw || !inner.contains('\\') {
        return Ok(inner.into_bytes());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        match chars
            .next()
            .ok_or("unable to unescape string, found '\\' as last character")?
        {
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            c @ ('\\' | '\'' | '"' | '`' | '?') => push(&mut out, c),
            'x' | 'X' => point(&mut out, digits(&mut chars, 2, 16).ok_or(STUCK)?, kind)?,
            'u' | 'U' if kind == LiteralKind::Bytes => return Err(STUCK),
            'u' => point(
                &mut out,
                digits(&mut chars, 4, 16).ok_or(STUCK)?,
                LiteralKind::Text,
            )?,
            'U' => point(
                &mut out,
                digits(&mut chars, 8, 16).ok_or(STUCK)?,
                LiteralKind::Text,
            )?,
            c @ '0'..='3' => {
                let low = digits(&mut chars, 2, 8).ok_or(OCTAL)?;
                point(&mut out, (c as u32 - '0' as u32) * 64 + low, kind)?;
            }
            _ => return Err(STUCK),
        }
    }
    Ok(out)
}

fn digits(chars: &mut std::str::Chars<'_>, many: u32, radix: u32) -> Option<u32> {
    let mut value: u32 = 0;
    for _ in 0..many {
        value = value.wrapping_mul(radix) | chars.next()?.to_digit(radix)?;
    }
    Some(value)
}

fn point(out: &mut Vec<u8>, value: u32, kind: LiteralKind) -> Result<(), &'static str> {
    match kind {
        LiteralKind::Bytes => out.push(u8::try_from(value).map_err(|_| STUCK)?),
        LiteralKind::Text => push(out, char::from_u32(value).ok_or(POINT)?),
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
