//! Reads the signatures of functions from Rust code without comments and texts. It does not fail: what is not understood is skipped.

/// The signature of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'c> {
    pub(super) line: usize,
    pub(super) name: &'c str,
    /// Whether it implements a function of a trait.
    pub(super) in_trait_impl: bool,
    /// Each with its type, as written.
    pub(super) parameters: Vec<&'c str>,
}

/// All functions with a name, in order.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    // Whether each block that is open implements a trait.
    let mut blocks = Vec::new();
    let mut header = 0;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => {
                blocks.push(is_trait_impl(&code[header..at]));
                header = at + 1;
            }
            '}' => {
                blocks.pop();
                header = at + 1;
            }
            ';' => header = at + 1,
            'f' if is_keyword(code, at) => {
                if let Some((name, parameters)) = signature(&code[at + "fn ".len()..]) {
                    found.push(Function {
                        line: code[..at].matches('\n').count() + 1,
                        name,
                        in_trait_impl: blocks.last() == Some(&true),
                        parameters,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// The elements of a list up to the bracket that closes it, and what follows that; `code` begins with the first element. `None` if
/// it is not closed.
pub(super) fn split_list(code: &str, close: char) -> Option<(Vec<&str>, &str)> {
    let mut elements = Vec::new();
    let mut depth = 0_u32;
    let mut start = 0;
    let mut previous = ' ';
    for (at, letter) in code.char_indices() {
        match letter {
            // Not of an arrow.
            '>' if previous == '-' || previous == '=' => {}
            letter if letter == close && depth == 0 => {
                let last = code[start..at].trim();
                if !last.is_empty() {
                    elements.push(last);
                }
                return Some((elements, &code[at + letter.len_utf8()..]));
            }
            '(' | '[' | '<' | '{' => depth += 1,
            ')' | ']' | '>' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                elements.push(code[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        previous = letter;
    }
    None
}

/// Whether the word `fn` is here.
fn is_keyword(code: &str, at: usize) -> bool {
    let is_start = code[..at]
        .chars()
        .next_back()
        .is_none_or(|before| !before.is_ascii_alphanumeric() && before != '_' && before != '#');
    is_start && code[at..].starts_with("fn ")
}

/// Whether a block with this header implements a trait.
fn is_trait_impl(header: &str) -> bool {
    let header = header.trim_start();
    let after_attributes = header.rsplit(']').next().unwrap_or(header).trim_start();
    let is_impl = |text: &str| {
        let text = text.trim_start_matches("unsafe ");
        text.starts_with("impl ") || text.starts_with("impl<")
    };
    (is_impl(header) || is_impl(after_attributes)) && header.contains(" for ")
}

/// The name and the parameters of the function whose name is next; `None` for the type of a function.
fn signature(code: &str) -> Option<(&str, Vec<&str>)> {
    let end = code.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let (name, rest) = code.split_at(end);
    if name.is_empty() {
        return None;
    }
    let parameters = match rest.strip_prefix('<') {
        Some(generics) => split_list(generics, '>')?.1.trim_start().strip_prefix('(')?,
        None => rest.strip_prefix('(')?,
    };
    Some((name, split_list(parameters, ')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_parameters() {
        let code = "impl A {\n    pub fn b<'c, T: Fn(&str) -> u8, const N: usize>(&self, d: [T; N], e: (u8, u8),) {}\n}\n";
        assert_eq!(
            functions(code),
            [Function {
                line: 2,
                name: "b",
                in_trait_impl: false,
                parameters: vec!["&self", "d: [T; N]", "e: (u8, u8)"],
            }]
        );
    }

    #[test]
    fn knows_implementations_of_traits() {
        let code = "#[async_trait]\nimpl<T: for<'a> A<'a>> B for C<T> {\n    fn d() { let e = 1; }\n    fn f() {}\n}\nimpl C { fn g() {} }\nfn h() {}\n";
        let found = functions(code);
        let kinds: Vec<_> = found
            .iter()
            .map(|function| (function.name, function.in_trait_impl))
            .collect();
        assert_eq!(kinds, [("d", true), ("f", true), ("g", false), ("h", false)]);
    }

    #[test]
    fn types_of_functions_are_no_functions() {
        assert!(functions("struct A { b: fn (u8) -> u8 }\ntype C = fn(bool);").is_empty());
    }
}
