//! Tests of keys, sources and the reference together.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, builder::ValueParser};

use crate::{
    Alias, ConfigFile, ConfigKey, EffectiveConfig, Environment, KeyTable, example, flag_values,
    markdown_table, parse_duration, parse_entries,
};

const ALIASES: &[Alias] = &[
    Alias::key("old.wait", "queue.wait"),
    Alias::flag("pause", "queue.wait"),
    Alias::variable("QUEUE_WAIT", "queue.wait"),
];

fn key(name: &'static str) -> ConfigKey {
    let arg = Arg::new(name)
        .long(name.replace('.', "-"))
        .help(format!("The {name}"));
    ConfigKey::new(name, arg)
}

/// Keys of each form.
fn table() -> KeyTable {
    let endpoints = Arg::new("endpoints").long("endpoints").action(ArgAction::Append);
    let verbose = Arg::new("verbose").long("verbose").action(ArgAction::SetTrue);
    KeyTable::new([
        key("queue.wait")
            .with_parser(ValueParser::new(parse_duration))
            .with_default("1s"),
        ConfigKey::new("store.endpoints", endpoints),
        key("store.password").secret(),
        key("filter.<kind>"),
        key("queue.names").joining_lists(),
        ConfigKey::new("verbose", verbose),
    ])
    .with_variables("APP_", &["APP_TEST_"])
    .with_aliases(ALIASES)
}

/// Reads a file, variables and a command line.
fn read(file: &str, variables: &[(&str, &str)], line: &str) -> EffectiveConfig {
    let table = table();
    let line: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let command = Command::new("app").no_binary_name(true);
    let command = command.args(table.untyped_flags(&line));
    let matches = command.try_get_matches_from(line).unwrap();
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let environment = Environment {
        variable: &variable,
        names: &|| variables.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let file = ConfigFile {
        path: "app.yaml".to_owned(),
        text: file.to_owned(),
    };
    let flags = flag_values(&table, &matches);
    EffectiveConfig::read(&table, &table, Some(&file), environment, &flags).check_flags()
}

/// The value of a name, and its source.
fn value(config: &EffectiveConfig, name: &str) -> (String, String) {
    assert_eq!(config.errors, Vec::<String>::new());
    let value = config.get(name).unwrap_or_else(|| panic!("no {name}"));
    (value.text(), value.source.to_string())
}

#[test]
fn an_alias_means_its_key_in_every_source() {
    for (file, variables, line, wanted, source) in [
        ("old: {wait: 2s}", &[][..], "", "2s", "app.yaml:1"),
        (
            "queue: {wait: 2s}",
            &[("QUEUE_WAIT", "3s")],
            "",
            "3s",
            "environment variable QUEUE_WAIT",
        ),
        (
            "",
            &[("APP_QUEUE_WAIT", "3s")],
            "",
            "3s",
            "environment variable APP_QUEUE_WAIT",
        ),
        (
            "old: {wait: 2s}",
            &[("QUEUE_WAIT", "3s")],
            "--pause 4s",
            "4s",
            "flag --queue-wait",
        ),
        ("", &[], "--old.wait=5s", "5s", "flag --queue-wait"),
    ] {
        let found = value(&read(file, variables, line), "queue.wait");
        assert_eq!(found, (wanted.to_owned(), source.to_owned()), "{file} {line}");
    }
    let same = read("queue: {wait: 2s}\nold: {wait: 2s}", &[], "");
    assert_eq!(value(&same, "queue.wait").1, "app.yaml:1");
    let other = read("queue: {wait: 2s}\nold: {wait: 3s}", &[], "");
    assert_eq!(
        other.errors,
        [
            "app.yaml:2: old.wait: contradicts app.yaml:1: queue.wait, which is the same setting with the value \"2s\""
        ]
    );
}

#[test]
fn a_wildcard_has_a_value_for_each_name() {
    let config = read(
        "filter: {pods: a, nodes: b}",
        &[],
        "--filter.pods=c --filter.jobs d",
    );
    assert_eq!(
        value(&config, "filter.pods"),
        ("c".to_owned(), "flag --filter.pods".to_owned())
    );
    assert_eq!(value(&config, "filter.jobs").0, "d");
    assert_eq!(
        value(&config, "filter.nodes"),
        ("b".to_owned(), "app.yaml:1".to_owned())
    );
    assert_eq!(config.get("filter.nodes").unwrap().wildcard(), "nodes");
}

#[test]
fn reports_all_errors_at_once_with_their_locations() {
    let file = "queue:\n  wait: soon\n  nmaes: a\nverbose: [true]\nfilter: x\n";
    let config = read(
        file,
        &[("APP_QUEUE_WIAT", "1s"), ("APP_TEST_X", "")],
        "--verbose=maybe",
    );
    assert_eq!(
        config.errors,
        [
            "environment variable APP_QUEUE_WIAT: no such setting; did you mean APP_QUEUE_WAIT?",
            "app.yaml:2: queue.wait: \"soon\" is not a duration: expected a number with a unit, such as 5s, 100ms or 1m30s",
            "app.yaml:3: queue.nmaes: no such key; did you mean queue.names?",
            "app.yaml:4: verbose: is a list, but takes one value; write it without brackets and dashes",
            "app.yaml:5: filter: is a section: it holds <kind>",
            "--verbose: \"maybe\" is not one of true, false",
        ]
    );
    assert!(config.validated().is_err());
}

#[test]
fn reads_json_with_lines() {
    let config = read("{\"queue\": {\n  \"names\": [\"a\", \"b\"]}}", &[], "");
    assert_eq!(
        value(&config, "queue.names"),
        ("a,b".to_owned(), "app.yaml:2".to_owned())
    );
}

#[test]
fn secrets_are_never_shown() {
    let config = read("store: {password: s3cret}", &[], "");
    let text = format!("{}{}", config.yaml(&table()), config.json(&table()));
    assert!(
        !text.contains("s3cret") && text.contains("password: '***'"),
        "{text}"
    );
}

#[test]
fn the_example_has_each_section_once_and_the_defaults() {
    let text = example(&table(), "# All settings.\n");
    let wanted = "\
# All settings.

queue:
  # The queue.wait
  wait: 1s

  # The queue.names
  names: \"\"

store:
  #
  endpoints: []

  # The store.password
  password: \"\"

# The filter.<kind>; a line each: `<kind>: VALUE`
filter: {}

#
verbose: false
";
    assert_eq!(text.replace("# \n", "#\n"), wanted);
    let config = read(&text, &[], "");
    let configured: Vec<_> = config
        .configured
        .iter()
        .map(|value| value.name.as_str())
        .collect();
    assert_eq!(configured, ["queue.wait", "verbose"]);
    assert_eq!(parse_entries(&text).unwrap().len(), 5);
}

#[test]
fn the_markdown_table_has_aliases() {
    let text = markdown_table(&table());
    let line =
        "| `queue.wait`, `old.wait` | `--queue-wait`, `--pause` | `QUEUE_WAIT`, `APP_QUEUE_WAIT` | `1s` |";
    assert!(text.lines().any(|found| found == line), "{text}");
}
