//! Flags in the syntax of Kubernetes programs.
//!
//! `--name=value`, `--name value` and `--name` are flags. An unsupported flag is ignored with a warning, because test suites set
//! flags for upstream's sake. Any other argument is a usage error.

use clap::{ArgAction, Parser};

use crate::command_error::CommandError;

/// A parsed flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedFlag {
    pub(super) name: String,
    pub(super) value: Option<String>,
}

/// Parses a list of flags.
pub(super) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Vec<ParsedFlag>, CommandError> {
    let mut arguments = arguments.into_iter().peekable();
    let mut flags = Vec::new();
    while let Some(word) = arguments.next() {
        // An empty argument results from a template without a value.
        if word.is_empty() {
            continue;
        }
        let Some(flag) = flag(&word) else {
            return Err(CommandError::usage(
                format!("invalid flag {word}"),
                "flags are --name=value; --help lists supported ones",
            ));
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (
                flag,
                arguments.next_if(|next| !next.starts_with('-') && !next.is_empty()),
            ),
        };
        flags.push(ParsedFlag {
            name: name.to_owned(),
            value,
        });
    }
    Ok(flags)
}

/// Returns the argument without its dashes if it is a flag.
fn flag(word: &str) -> Option<&str> {
    if word == "-h" {
        return Some("help");
    }
    let flag = word
        .strip_prefix("--")
        .or_else(|| word.strip_prefix('-').filter(|rest| rest.starts_with("v=")))?;
    let name = flag.split('=').next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_name.then_some(flag)
}

/// Parses flags into the flags of a program. Unsupported flags are logged and ignored.
pub(super) fn parse<P: Parser>(flags: &[ParsedFlag]) -> P {
    let command = P::command();
    let known = |name: &str| {
        command.get_arguments().find(|argument| {
            argument.get_long() == Some(name)
                || argument.get_all_aliases().unwrap_or_default().contains(&name)
        })
    };
    let mut arguments = vec![command.get_name().to_owned()];
    for ParsedFlag { name, value } in flags {
        if name == "help" {
            arguments.push("--help".to_owned());
            continue;
        }
        let Some(argument) = known(name) else {
            tracing::warn!("ignoring unsupported flag --{name}");
            continue;
        };
        arguments.push(match value.as_deref() {
            // Switches take no value in clap, but upstream writes `--switch=true`.
            Some("true") if matches!(argument.get_action(), ArgAction::SetTrue) => format!("--{name}"),
            Some("false") if matches!(argument.get_action(), ArgAction::SetTrue) => continue,
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
    }
    let matches = command.get_matches_from(arguments);
    P::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Vec<(String, Option<String>)>, String> {
        let flags = read(line.split(' ').map(str::to_owned)).map_err(|failure| failure.to_string())?;
        Ok(flags.into_iter().map(|flag| (flag.name, flag.value)).collect())
    }

    fn pair(name: &str, value: Option<&str>) -> (String, Option<String>) {
        (name.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn parses_flags_in_every_form_of_go_programs() {
        let flags = read_line("--a=1 --b 2  --c --d=x=y -v=4").unwrap();
        let expected = [
            pair("a", Some("1")),
            pair("b", Some("2")),
            pair("c", None),
            pair("d", Some("x=y")),
            pair("v", Some("4")),
        ];
        assert_eq!(flags, expected);
    }

    #[test]
    fn rejects_arguments_that_are_not_flags() {
        for line in ["serve", "-a", "--A=1", "--=1", "--a=1 b c"] {
            assert!(read_line(line).unwrap_err().contains("invalid flag"), "{line}");
        }
    }
}
