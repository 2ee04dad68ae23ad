//! Tests of command lines, variables and files together.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path};

use k3_config::{ConfigKey, markdown_table, parse_entries};
use serde_json::{Value, json};

use super::{
    clap_args::documented,
    command_line::{CommandEnvironment, CommandLine, CommandLineError, read},
    example, key_table,
    keys::KEYS,
};
use crate::commands::command;

/// Long-running commands: every flag has a key.
const LONG_RUNNING: [&str; 7] = [
    "start",
    "run",
    "apiserver",
    "controller",
    "scheduler",
    "node",
    "storage",
];

/// Parses a command line in a directory with this `.config.yaml`.
fn parse_with_file(line: &str, file: &str, env: &[(&str, &str)]) -> Result<CommandLine, String> {
    let directory = tempfile::tempdir().unwrap();
    if !file.is_empty() {
        fs::write(directory.path().join(".config.yaml"), file).unwrap();
    }
    parse_in(directory.path(), line, env)
        .map_err(|error| error.replace(directory.path().to_str().unwrap(), "."))
}

fn parse_in(directory: &Path, line: &str, env: &[(&str, &str)]) -> Result<CommandLine, String> {
    let variable = |name: &str| {
        let found = env.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let environment = CommandEnvironment {
        variable: &variable,
        variable_names: &|| env.iter().map(|(name, _)| (*name).to_owned()).collect(),
        directory,
    };
    let arguments = line.split_whitespace().map(OsString::from).collect();
    read(&command(), arguments, &environment).map_err(|unread| match unread {
        CommandLineError::Usage(error, notes) => format!("{error}\n{notes}"),
        CommandLineError::EffectiveConfig(failure) => failure.to_string(),
    })
}

/// An effective value, and its source without the directory.
fn shown(line: &CommandLine, key: &str) -> (Value, String) {
    let all = line.settings.json(&key_table(&command()));
    let found = all["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["key"] == key);
    let row = found.unwrap_or_else(|| panic!("no key {key}"));
    let origin = row["origin"].as_str().unwrap();
    (
        row["value"].clone(),
        origin.rsplit('/').next().unwrap().to_owned(),
    )
}

fn port(line: &CommandLine) -> u16 {
    let start = line.matches.subcommand_matches("start").unwrap();
    *start.get_one("secure_port").unwrap()
}

#[test]
fn flags_override_environment_override_file_override_defaults() {
    let file = "api:\n  port: 1";
    let env = [("K3_API_PORT", "2")];
    let from = |line: &CommandLine| shown(line, "api.port").1;
    for (line, file, env, wanted, origin) in [
        ("k3 start", "", &[][..], 6443, "default"),
        ("k3 start", file, &[], 1, ".config.yaml:2"),
        ("k3 start", file, &[("K3_API_PORT", "")], 1, ".config.yaml:2"),
        ("k3 start", file, &env, 2, "environment variable K3_API_PORT"),
        ("k3 start --secure-port=3", file, &env, 3, "flag --secure-port"),
        ("k3 start --api-port=3", file, &env, 3, "flag --secure-port"),
    ] {
        let line = parse_with_file(line, file, env).unwrap();
        assert_eq!((port(&line), from(&line).as_str()), (wanted, origin));
    }
}

#[test]
fn finds_the_file_in_this_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, port: u16| fs::write(path(name), format!("api: {{port: {port}}}")).unwrap();
    let found = |line: &str, env: &[(&str, &str)]| port(&parse_in(directory.path(), line, env).unwrap());
    let by_flag = path("a.yaml");
    let by_variable = path("b.yaml");
    let line = format!("k3 start --config {}", by_flag.display());
    let env = [("CONFIG_PATH", by_variable.to_str().unwrap())];
    fs::create_dir(path("configs")).unwrap();
    assert_eq!(found("k3 start", &[]), 6443);
    write("configs/config-example.yaml", 4);
    assert_eq!(found("k3 start", &[]), 4);
    write(".config.yaml", 3);
    assert_eq!(found("k3 start", &[]), 3);
    write("b.yaml", 2);
    assert_eq!(found("k3 start", &env), 2);
    write("a.yaml", 1);
    assert_eq!(found(&line, &env), 1);
    fs::remove_file(by_flag).unwrap();
    let error = parse_in(directory.path(), &line, &env).unwrap_err();
    assert!(error.contains("a.yaml: No such file"), "{error}");
}

#[test]
fn reports_errors_with_file_line_and_key() {
    for (file, wanted) in [
        (
            "storage:\n  type: tape",
            "./.config.yaml:2: storage.type: \"tape\" is not one of memory, file, etcd, mysql",
        ),
        (
            "api:\n  prot: 1",
            "./.config.yaml:2: api.prot: no such key; did you mean api.port?",
        ),
        (
            "signing_key: x",
            "./.config.yaml:1: signing_key: no such key; did you mean jwt.signing_key?",
        ),
        ("nonsense: x", "./.config.yaml:1: nonsense: no such key"),
        (
            "storage: file",
            "./.config.yaml:1: storage: is a section: it holds type, ",
        ),
        (
            "debug: {x: 1}",
            "./.config.yaml:1: debug.x: no such key: debug is a value and holds no keys",
        ),
        (
            "api: {port: 70000}",
            "./.config.yaml:1: api.port: \"70000\": 70000 is not in 0..=65535",
        ),
        ("api: {port: }", "./.config.yaml:1: api.port: \"\""),
        (
            "api: {port: [1, 2]}",
            "./.config.yaml:1: api.port: is a list, but takes one value",
        ),
        (
            "api: {port: [1]}",
            "./.config.yaml:1: api.port: is a list, but takes one value",
        ),
        ("role: bad", "./.config.yaml:1: role: \"bad\""),
        ("log: {level: loud}", "./.config.yaml:1: log.level: \"loud\""),
        (
            "web: {cors: maybe}",
            "./.config.yaml:1: web.cors: \"maybe\" is not one of true, false",
        ),
        (
            "storage: {etcd: {dial_timeout: soon}}",
            "./.config.yaml:1: storage.etcd.dial_timeout: \"soon\": ",
        ),
        ("debug: true\ndebug: false", "./.config.yaml:2"),
        ("debug: [", "./.config.yaml:"),
        ("[a, b]", "./.config.yaml: expected a map of keys and values"),
    ] {
        let error = parse_with_file("k3 controller", file, &[])
            .map(|_| file)
            .unwrap_err();
        assert!(error.starts_with(&format!("error: {wanted}")), "{file}: {error}");
    }
    let error = parse_with_file("k3 start", "a: 1\nb: 2", &[])
        .map(|_| ())
        .unwrap_err();
    assert!(error.contains(":1: a: ") && error.contains(":2: b: "), "{error}");
}

#[test]
fn reports_errors_of_environment_variables() {
    let error = parse_with_file("k3 start", "", &[("K3_API_PORT", "x")])
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.starts_with("error: environment variable K3_API_PORT: \"x\": invalid digit"),
        "{error}"
    );
}

#[test]
fn secrets_are_never_shown() {
    let file =
        "storage:\n  mysql: {password: s3cret}\n  etcd: {password: s3cret}\njwt: {signing_key: s3cret}\n";
    let env = [("K3_MYSQL_URL", "mysql://u:s3cret@h")];
    let line = parse_with_file("k3 config show", file, &env).unwrap();
    let table = key_table(&command());
    let text = format!("{}{}", line.settings.yaml(&table), line.settings.json(&table));
    assert!(!text.contains("s3cret"), "{text}");
    assert_eq!(
        shown(&line, "storage.mysql.url"),
        (json!("***"), "environment variable K3_MYSQL_URL".to_owned())
    );
}

#[test]
fn keeps_the_text_of_values() {
    let line = parse_with_file("k3 config show", "node: {name: 007}\nlog: {path: 1.10}\n", &[]).unwrap();
    let values: Vec<_> = line
        .settings
        .configured
        .iter()
        .map(|configured| configured.values.concat())
        .collect();
    assert_eq!(values, ["1.10", "007"]);
}

#[test]
fn a_flag_overrides_a_switch_of_the_file() {
    let runs = |line: &str| {
        let line = parse_with_file(line, "node: {disabled: true}", &[]).unwrap();
        let start = line.matches.subcommand_matches("start").unwrap();
        !start.get_flag("no_node")
    };
    assert!(!runs("k3 start") && !runs("k3 start --no-node") && runs("k3 start --no-node=false"));
}

#[test]
fn parses_lists_in_file_and_environment() {
    let file = "storage: {etcd: {endpoints: ['http://a', 'http://b']}}\njwt: {key_files: [c, d]}\n";
    let env = [("K3_API_TLS_SAN", "e.example, f.example")];
    let line = parse_with_file("k3 start", file, &env).unwrap();
    let start = line.matches.subcommand_matches("start").unwrap();
    let values = |id: &str| {
        let raw = start.get_raw(id).unwrap();
        raw.map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(values("etcd_servers"), ["http://a", "http://b"]);
    assert_eq!(values("service_account_key_file"), ["c", "d"]);
    assert_eq!(values("tls_san"), ["e.example", "f.example"]);
    // A flag replaces the list and does not add to it.
    let line = parse_with_file("k3 start --etcd-servers http://z --storage etcd", file, &[]).unwrap();
    assert_eq!(shown(&line, "storage.etcd.endpoints").0, json!(["http://z"]));
}

#[test]
fn rejects_flags_of_other_stores_but_not_keys() {
    let error = parse_with_file(
        "k3 start --etcd-servers http://a:1",
        "storage: {type: memory}",
        &[],
    )
    .map(|_| ());
    let error = error.unwrap_err();
    assert!(
        error.starts_with(
            "error: --etcd-servers is for --storage etcd, but the store is memory (./.config.yaml:1"
        ),
        "{error}"
    );
    assert!(parse_with_file("k3 start", "storage: {etcd: {endpoints: ['http://a:1']}}", &[]).is_ok());
}

#[test]
fn a_database_is_configured_by_url_or_by_parts() {
    let host = |file: &str, env: &[(&str, &str)], line: &str| {
        let line = parse_with_file(&format!("k3 start --storage mysql {line}"), file, env)?;
        Ok::<_, String>(shown(&line, "storage.mysql.host"))
    };
    let both = "storage:\n  mysql:\n    url: mysql://u@h\n    host: other\n";
    let error = host(both, &[], "").unwrap_err();
    assert!(
        error.contains(
            "./.config.yaml:4: storage.mysql.host: conflicts with ./.config.yaml:3: storage.mysql.url"
        ),
        "{error}"
    );
    // As in the example, which has the defaults.
    assert!(host(&both.replace("other", "127.0.0.1"), &[], "").is_ok());
    let file = "storage: {mysql: {host: other}}";
    let env = [("K3_MYSQL_URL", "mysql://u@h")];
    assert_eq!(host(file, &env, "").unwrap().1, "default");
    assert_eq!(host(file, &env, "--mysql-host x").unwrap().0, "x");
    let error = parse_with_file(
        "k3 start",
        "storage: {etcd: {password: a, password_file: b}}",
        &[],
    );
    assert!(error.unwrap_err().contains("use one of them"));
}

#[test]
fn errors_name_the_source_of_flags() {
    let error = parse_with_file("k3 start", "audit:\n  policy_file: p.yaml", &[])
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.contains("--audit-log-path")
            && error.contains("--audit-policy-file comes from ./.config.yaml:2: audit.policy_file"),
        "{error}"
    );
    let line = parse_with_file("k3 start", "data_dir: /x", &[("NODE_NAME", "n")]).unwrap();
    let notes = line.settings.notes("--data-dir and --data-dir-x and node.name");
    let lines: Vec<_> = notes.lines().collect();
    assert_eq!(lines.len(), 2, "{notes}");
    assert!(
        lines[0].starts_with("--data-dir comes from ") && lines[0].ends_with("/.config.yaml:1: data_dir")
    );
    assert_eq!(lines[1], "node.name comes from environment variable NODE_NAME");
}

#[test]
fn help_reads_no_file_and_shows_variables() {
    let error = parse_with_file("k3 start --help", "nonsense: 1", &[])
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.contains("[env: K3_API_PORT]") && error.contains("--config <FILE>"),
        "{error}"
    );
    documented(command()).debug_assert();
}

#[test]
fn every_flag_of_long_running_commands_has_a_key() {
    let command = command();
    for name in LONG_RUNNING {
        let Some(command) = command.find_subcommand(name) else {
            continue;
        };
        for arg in command.get_arguments().filter(|arg| arg.get_id() != "config") {
            let id = arg.get_id().as_str();
            assert!(
                KEYS.iter().any(|row| row.id == id),
                "k3 {name} has {id}, which wants a line in config/keys.rs"
            );
        }
    }
    let table = key_table(&command);
    let with_arg: Vec<_> = table.keys().iter().map(|key| key.name()).collect();
    let keys: Vec<_> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(with_arg, keys, "a key has no argument");
    let names: BTreeSet<_> = KEYS.iter().flat_map(|key| [key.name, key.id]).collect();
    let same = KEYS.iter().filter(|key| key.name == key.id).count();
    assert_eq!(names.len(), 2 * KEYS.len() - same, "two keys have one name");
}

/// Compares a file of this repository, or updates it.
fn check(path: &str, current: &str, wanted: &str) {
    if std::env::var_os("K3_UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    assert!(
        current == wanted,
        "{path} is outdated: run `K3_UPDATE_DOCS=1 cargo nextest run -p k3 config::` and review the change"
    );
}

#[test]
fn the_example_contains_every_key_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/config-example.yaml");
    let table = key_table(&command());
    let text = fs::read_to_string(path).unwrap_or_default();
    check(path, &text, &example(&table));
    let text = fs::read_to_string(path).unwrap();
    let entries = parse_entries(&text).unwrap();
    assert_eq!(entries.len(), KEYS.len());
    for (entry, key) in entries.iter().zip(table.keys()) {
        let nothing_is_empty = |values: Vec<String>| values.into_iter().filter(|value| !value.is_empty());
        assert_eq!(entry.key, key.name());
        let said: Vec<_> = nothing_is_empty(entry.values.clone()).collect();
        assert_eq!(said, key.defaults(), "{}", key.name());
    }
    // With the example, every value is the default.
    let value = |line: &CommandLine, key: &ConfigKey| shown(line, key.name()).0;
    let with = parse_with_file("k3 config show", &text, &[]).unwrap();
    let without = parse_with_file("k3 config show", "", &[]).unwrap();
    for key in table.keys() {
        assert_eq!(value(&with, key), value(&without, key), "{}", key.name());
    }
}

#[test]
fn the_table_in_the_docs_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = fs::read_to_string(path).unwrap();
    let begin = "<!-- keys -->\n";
    let end = "\n<!-- end of keys -->";
    let (head, rest) = text.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let wanted = format!(
        "{head}{begin}{}{end}{tail}",
        markdown_table(&key_table(&command()))
    );
    check(path, &text, &wanted);
}

/// Why the name of a variable is invalid.
fn unknown_variable(name: &str) -> Option<String> {
    key_table(&command()).unknown_variable_reason(name)
}

#[test]
fn suggests_the_right_name_of_a_misspelt_variable() {
    for (name, meant) in [
        ("K3_STROAGE_TYPE", "K3_STORAGE_TYPE"),
        ("K3_DATADIR", "K3_DATA_DIR"),
        ("K3_API_PROT", "K3_API_PORT"),
    ] {
        let why = unknown_variable(name).unwrap();
        assert!(why.ends_with(&format!("did you mean {meant}?")), "{why}");
    }
    assert!(unknown_variable("K3_STORAGE_POSTGRES_ADDRESS_LIST").is_some());
}

#[test]
fn ignores_other_variables() {
    for name in [
        "K3_API_PORT",
        "K3_MYSQL_URL",
        "NODE_NAME",
        "K3_TEST_ETCD",
        "K3_SERVICE_HOST",
        "K3_PORT_6443_TCP_ADDR",
        "K3_BACKUP_BUCKET_NAME",
    ] {
        assert_eq!(unknown_variable(name), None, "{name}");
    }
}
