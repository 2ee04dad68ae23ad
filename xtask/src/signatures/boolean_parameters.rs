//! No boolean parameters: at the call, `true` does not name what is chosen.
//!
//! A function may take one if that is all it takes besides `self`, and its name has the meaning: `set_follows(follows: bool)`. Trait
//! implementations are not looked at: the trait is.

use super::{
    SignatureRule, Violation,
    function::{Function, functions},
};

/// Finds functions with boolean parameters in code.
pub(super) fn find(code: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for function in functions(code).iter().filter(|function| !function.in_trait_impl) {
        for name in function.parameters.iter().filter_map(|text| boolean_name(text)) {
            if !is_setter(function, name) {
                found.push(Violation {
                    line: function.line,
                    rule: SignatureRule::BooleanParameter,
                    complaint: format!(
                        "`{}` takes the boolean `{name}`; write an enum with two variants, two functions, or take the value it \
                         was derived from",
                        function.name
                    ),
                });
            }
        }
    }
    found
}

/// The name of a parameter, if it is a boolean.
fn boolean_name(parameter: &str) -> Option<&str> {
    let (name, ty) = parameter.split_once(':')?;
    let ty = ty.trim().trim_start_matches('&').trim();
    (ty == "bool").then(|| name.trim().trim_start_matches("mut ").trim())
}

/// Whether a function sets what its name has, and nothing else.
fn is_setter(function: &Function<'_>, parameter: &str) -> bool {
    let receivers = function
        .parameters
        .iter()
        .filter(|text| is_receiver(text))
        .count();
    let others = function.parameters.len() - receivers;
    let meaning = ["is_", "has_", "should_"]
        .iter()
        .find_map(|prefix| parameter.strip_prefix(prefix))
        .unwrap_or(parameter);
    receivers == 1 && others == 1 && function.name.contains(meaning)
}

fn is_receiver(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or(parameter);
    name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .any(|word| word == "self")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(code: &str) -> usize {
        find(code).len()
    }

    #[test]
    fn finds_boolean_parameters() {
        assert_eq!(count("pub(crate) async fn a(b: bool) {}"), 1);
        assert_eq!(
            count("fn a<T: Fn(u8) -> u8>(\n    &self,\n    b: T,\n    c: bool,\n) -> u8 {}"),
            1
        );
        assert_eq!(count("fn a(b: bool, mut c: bool) {}"), 2);
        assert_eq!(count("trait A { fn b(&self, c: bool); }"), 1);
        assert_eq!(count("impl A { fn set_b(&mut self, b: bool, c: u8) {} }"), 1);
        assert_eq!(count("impl A { fn run(&self, force: bool) {} }"), 1);
    }

    #[test]
    fn allows_setters_and_trait_implementations() {
        for code in [
            "impl A { fn set_follows(&self, follows: bool) {} }",
            "impl A { fn verbose(mut self, verbose: bool) -> Self {} }",
            "impl A { fn with_cache(self, is_cache: bool) -> Self {} }",
            "impl<'de> Visitor<'de> for A { fn visit_bool<E>(self, value: bool) -> B { |c: bool| c } }",
            "fn a() -> bool {}",
            "fn a(b: Option<bool>, c: fn(bool) -> u8, d: impl Fn(bool)) {}",
            "struct A { b: bool }",
        ] {
            assert_eq!(count(code), 0, "{code}");
        }
        assert_eq!(
            count("impl A for B { fn c(d: bool) { if e {} } }\nimpl B { fn f(g: bool) {} }"),
            1
        );
    }
}
