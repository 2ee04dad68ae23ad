//! Settings of a program: one table of keys, and a value for each from the command line, the environment, a file or a default.
//!
//! ```text
//! config_key        a key: its name in files, its argument (flag, type, help, default), its variables
//! key_table, alias  all keys of a program, and other names of them
//! entries           a file as values with lines
//! config_file       a file checked against the keys
//! effective_config  the value of each key, and where it is from
//! reference         the example file and the table for documents
//! value_error       values with errors that users understand
//! ```
//!
//! Promises:
//! - A key is one line of a table. Variable, help, example file and documents are derived from it.
//! - Flags override the environment, the environment overrides the file, the file overrides defaults. Each value has its source.
//! - The whole file is checked, including values that a flag overrides. All errors are reported at once, with file, line and key;
//!   a name that is not in the table is an error with a suggestion.
//! - Secrets are never printed.
//! - Nothing is read here: the text of the file, the environment and the arguments are passed in.

mod alias;
mod config_file;
mod config_key;
mod configured_value;
mod effective_config;
mod entries;
mod flags;
mod key_table;
mod reference;
mod suggestion;
#[cfg(test)]
mod tests;
mod value_check;
mod value_error;
mod value_text;

pub use self::{
    alias::Alias,
    config_file::ConfigFile,
    config_key::ConfigKey,
    configured_value::{ConfigSource, ConfiguredValue},
    effective_config::{ConfigError, EffectiveConfig, Environment},
    entries::{ConfigEntry, ConfigFileError, parse_entries},
    flags::flag_values,
    key_table::KeyTable,
    reference::{example, markdown_table},
    suggestion::closest_match,
    value_error::{
        ValueError, listen_address, names, optional_duration, parse_duration, positive_duration, switch,
        whole_number,
    },
};
