//! Whether values are valid.

use std::error::Error;

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{ConfiguredValue, ValueError};

impl ConfiguredValue {
    /// Why the value is invalid, if it is. A secret is not repeated.
    pub fn invalid_reason(&self) -> Option<String> {
        let arg = self.key.arg();
        let mut probe = Arg::new("value")
            .long("value")
            .action(arg.get_action().clone())
            .value_parser(arg.get_value_parser().clone())
            .require_equals(true);
        if let Some(delimiter) = arg.get_value_delimiter() {
            probe = probe.value_delimiter(delimiter);
        }
        let values: Vec<String> = if self.key.is_list() {
            self.values.clone()
        } else {
            vec![self.text()]
        };
        let tried = Command::new("value")
            .no_binary_name(true)
            .arg(probe)
            .try_get_matches_from(values.iter().map(|value| format!("--value={value}")));
        let error = tried.err()?;
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
            _ => None,
        };
        let shown = self.redacted();
        let why = match (error.kind(), error.source()) {
            (ErrorKind::InvalidValue, _) => match text(ContextKind::ValidValue) {
                Some(valid) => format!("{shown} is not one of {valid}"),
                None => format!("{shown} is not a value"),
            },
            // The message of a parser may contain the value.
            (_, Some(_)) if self.key.is_secret() => "is invalid".to_owned(),
            (_, Some(cause)) if cause.is::<ValueError>() => cause.to_string(),
            (_, Some(cause)) => format!("{shown}: {cause}"),
            (_, None) => format!("{shown} is not a value"),
        };
        Some(match text(ContextKind::SuggestedValue) {
            Some(meant) => format!("{why}; did you mean {meant}?"),
            None => why,
        })
    }
}
