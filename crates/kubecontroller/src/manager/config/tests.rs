//! Tests of the configuration.

use std::{ffi::OsString, time::Duration};

use super::{
    Config, ControllerSetting,
    flags::{CommandLine, CommandLineError, read},
    settings::Settings,
};

const OWN: &[ControllerSetting] = &[ControllerSetting {
    key: "redis.image",
    help: "The image",
    default: "redis:8",
}];

/// The errors of a file.
fn errors(text: &str) -> Vec<String> {
    Config::from_yaml("app.yaml", text).map_or_else(|bad| bad.errors, |_| Vec::new())
}

/// Parses a command line.
fn parse(args: &[&str], env: &[(&str, &str)]) -> Result<Config, String> {
    let args: Vec<OsString> = ["app"].iter().chain(args).map(OsString::from).collect();
    let env = |name: &str| {
        let found = env.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    match read("app", "about", OWN, args, env) {
        Ok(CommandLine::Run(config)) => Ok(*config),
        Ok(_) => panic!("expected CommandLine::Run"),
        Err(CommandLineError::Line(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn file_sets_all_settings() {
    let text = "
reconcilermgr:
  kubeconfig: /etc/kube.conf
  master: https://10.0.0.1:6443
  metrics-bind-address: :18001
  health-probe-bind-address: 127.0.0.1:18002
  concurrence: 1
  leader-elect: true
  leader-elect-lease-duration: 30s
  graceful-shutdown-timeout: 1m30s
enabled: [ats, dummies]
resource-filter:
  ats: default/a*
dependencies:
  at: ['127.0.0.1:8080', dummy]
queueConfig: {maxRetries: 5, baseDelay: 100ms, maxDelay: 1.5m, rateLimiterQPS: 10}
reconcileConfig: {timeout: 30s, resyncPeriod: 10m, maxConcurrent: 8}
informerConfig: {cacheSize: 10000, listTimeout: 60s}
log: {level: debug, format: json, name: hub, disable-caller: false, output-paths: [stdout]}
";
    let config = Config::from_yaml("app.yaml", text).unwrap();
    assert_eq!(config.cluster.master.as_deref(), Some("https://10.0.0.1:6443"));
    assert_eq!(config.metrics_address.as_deref(), Some("0.0.0.0:18001"));
    assert_eq!(config.health_address.as_deref(), Some("127.0.0.1:18002"));
    assert_eq!(
        (config.controller.workers, config.controller.max_concurrent),
        (1, Some(8))
    );
    assert_eq!(config.leader.duration, Duration::from_secs(30));
    assert_eq!(config.grace, Duration::from_secs(90));
    assert!(config.selection.has("at", "ats") && !config.selection.has("job", "jobs"));
    assert_eq!(config.filters["ats"], "default/a*");
    assert_eq!(config.dependencies["at"].len(), 2);
    assert_eq!(config.controller.max_retries, Some(5));
    assert_eq!(config.controller.base_delay, Duration::from_millis(100));
    assert_eq!(config.controller.max_delay, Duration::from_secs(90));
    assert_eq!(config.controller.qps, Some(10.0));
    assert_eq!(config.controller.timeout, Some(Duration::from_secs(30)));
    assert_eq!(config.informer.resync, Some(Duration::from_mins(10)));
    assert_eq!(config.informer.cache_size, Some(10_000));
    assert_eq!(
        (config.log.level, config.log.caller),
        (tracing::Level::DEBUG, true)
    );
    assert_eq!(Config::from_yaml("empty.yaml", "").unwrap(), Config::default());
    assert_eq!(
        Config::from_yaml("empty.yaml", "# nothing\n").unwrap(),
        Config::default()
    );
}

#[test]
fn errors_name_file_line_and_key() {
    for (text, want) in [
        ("workers: x", "app.yaml:1: workers: \"x\" is not a whole number"),
        ("workers: 0", "app.yaml:1: workers: must be at least 1"),
        (
            "\nqueueConfig:\n  baseDelay: 5",
            "app.yaml:3: queueConfig.baseDelay: \"5\" is not a duration: expected a number with a unit, such as 5s, 100ms or 1m30s",
        ),
        (
            "worker: 3",
            "app.yaml:1: worker: no such key; did you mean workers?",
        ),
        (
            "reconcilermgr:\n  frobnicate: 3",
            "app.yaml:2: reconcilermgr.frobnicate: no such key",
        ),
        (
            "reconcilermgr:\n  leader-elect: maybe",
            "app.yaml:2: reconcilermgr.leader-elect: \"maybe\" is neither true nor false",
        ),
        (
            "reconcilermgr: {metrics-bind-address: nowhere}",
            "app.yaml:1: reconcilermgr.metrics-bind-address: \"nowhere\" is not an address: expected HOST:PORT or :PORT, or 0 for none",
        ),
        (
            "reconcilermgr: {master: 10.0.0.1}",
            "app.yaml:1: reconcilermgr.master: \"10.0.0.1\" is not a URL: expected http://HOST:PORT or https://HOST:PORT",
        ),
        (
            "reconcilermgr: {apiserver-enabled: true}",
            "app.yaml:1: reconcilermgr.apiserver-enabled: this program has no API extension server",
        ),
        (
            "apiextmgr: {gin: {server: {mode: release}}}",
            "app.yaml:1: apiextmgr.gin.server.mode: this program has no API extension server",
        ),
        (
            "log: {format: xml}",
            "app.yaml:1: log.format: \"xml\" is neither console nor json",
        ),
        (
            "log: {level: loud}",
            "app.yaml:1: log.level: \"loud\" is not a log level: expected error, warn, info, debug, trace or a number",
        ),
        (
            "dependencies: {at: ':80'}",
            "app.yaml:1: dependencies.at: \":80\" is neither HOST:PORT nor the name of a controller",
        ),
        (
            "controllers: 'a,-a'",
            "app.yaml:1: controllers: a is both enabled and disabled",
        ),
        (
            "queueConfig:\n  baseDelay: 5s\n  maxDelay: 1s",
            "app.yaml:2: queueConfig.baseDelay and app.yaml:3: queueConfig.maxDelay: the base delay must not exceed the maximal delay",
        ),
        (
            "enabled: [a]\ncontrollers: '*'",
            "app.yaml:1: enabled and app.yaml:2: controllers: both select controllers; use only one",
        ),
        (
            "workers: 3\nreconcilermgr: {concurrence: 4}",
            "app.yaml:2: reconcilermgr.concurrence: contradicts app.yaml:1: workers, which is the same setting with the value \"3\"",
        ),
        (
            "workers: 3\nreconcileConfig: {maxConcurrent: 2}",
            "app.yaml:1: workers and app.yaml:2: reconcileConfig.maxConcurrent: the number of workers must not exceed the maximal concurrency",
        ),
        (
            "reconcilermgr: {leader-elect-renew-deadline: 20s}",
            "app.yaml:1: reconcilermgr.leader-elect-renew-deadline and reconcilermgr.leader-elect-lease-duration (default): the renew deadline must be shorter than the lease duration",
        ),
        ("[a, b]", "app.yaml: expected a map of keys and values"),
    ] {
        assert_eq!(errors(text), [want], "{text}");
    }
    let filter = errors("resource-filter: {ats: 'a[b'}");
    assert!(
        filter[0].starts_with("app.yaml:1: resource-filter.ats: invalid glob"),
        "{filter:?}"
    );
    let twice = errors("workers: 3\nworkers: 4");
    assert!(
        twice.len() == 1 && twice[0].starts_with("app.yaml:2"),
        "{twice:?}"
    );
    let broken = errors("workers: [3");
    assert!(
        broken.len() == 1 && broken[0].starts_with("app.yaml:"),
        "{broken:?}"
    );
    // All errors are reported at once.
    assert_eq!(errors("workers: x\nlog: {format: xml}\nnonsense: 1").len(), 3);
}

#[test]
fn flag_overrides_environment_overrides_file_overrides_default() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.yaml");
    std::fs::write(
        &path,
        "informerConfig: {listTimeout: 1s}\nworkers: 7\nredis: {image: 'redis:7'}\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let env = [
        ("LIST_TIMEOUT", "2s"),
        ("INFORMER_CACHE_SIZE", "5"),
        ("ENABLE_INCREMENTAL_SYNC", "true"),
    ];
    let seconds = |config: Config| config.informer.list_timeout.unwrap().as_secs();
    assert_eq!(seconds(parse(&["-c", path], &[]).unwrap()), 1);
    assert_eq!(seconds(parse(&["-c", path], &env).unwrap()), 2);
    assert_eq!(
        seconds(parse(&["-c", path, "--list-timeout", "3s"], &env).unwrap()),
        3
    );
    let config = parse(&["--config", path, "--concurrence=9"], &env).unwrap();
    assert_eq!(
        (config.controller.workers, config.informer.cache_size),
        (9, Some(5))
    );
    assert!(config.informer.incremental_sync);
    assert_eq!(config.controller_setting("redis.image"), "redis:7");
    assert_eq!(
        parse(&["--redis.image=redis:6"], &[])
            .unwrap()
            .controller_setting("redis.image"),
        "redis:6"
    );
    assert_eq!(
        parse(&[], &[]).unwrap().controller_setting("redis.image"),
        "redis:8"
    );
    let error = parse(&[], &[("LIST_TIMEOUT", "soon")]).unwrap_err();
    assert!(
        error.starts_with("environment variable LIST_TIMEOUT: \"soon\" is not a duration"),
        "{error}"
    );
    let error = parse(&["-c", "/nowhere/app.yaml"], &[]).unwrap_err();
    assert!(error.starts_with("/nowhere/app.yaml: No such file"), "{error}");
}

#[test]
fn every_setting_has_a_flag_with_its_key() {
    let config = parse(
        &[
            "--kubeconfig=/etc/kube.conf",
            "--queueConfig.maxRetries=3",
            "--leader-elect",
            "--portable=false",
            "--resource-filter.ats=default/a*",
            "--resource-filter.jobs",
            "x/*",
            "--dependencies.at=localhost:80,dummy",
            "--controllers=*,-dummy",
            "-vv",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(config.controller.max_retries, Some(3));
    assert!(config.leader.elect && !config.portable);
    assert_eq!(
        (config.filters["ats"].as_str(), config.filters["jobs"].as_str()),
        ("default/a*", "x/*")
    );
    assert_eq!(config.dependencies["at"].len(), 2);
    assert_eq!(config.log.level, tracing::Level::TRACE);
    for (args, level) in [
        (&["-v"][..], "DEBUG"),
        (&["-v", "2"], "INFO"),
        (&["-v=4"], "DEBUG"),
        (&["-v5"], "TRACE"),
    ] {
        assert_eq!(parse(args, &[]).unwrap().log.level.to_string(), level, "{args:?}");
    }
    let error = parse(&["--workers=x"], &[]).unwrap_err();
    assert_eq!(error, "--workers: \"x\" is not a whole number");
    let error = parse(&["--wrokers=3"], &[]).unwrap_err();
    assert!(
        error.contains("--wrokers") && error.contains("--workers"),
        "{error}"
    );
}

#[test]
fn setting_names_are_unique() {
    let settings = Settings::new(OWN);
    let mut names: Vec<_> = settings.table.keys().iter().map(|key| key.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), settings.table.keys().len());
    // clap rejects two arguments with one flag, aliases included.
    let command = clap::Command::new("app").args(settings.table.untyped_flags(&[]));
    command.debug_assert();
}

/// What `--print-config` prints.
fn printed(args: &[&str], env: &[(&str, &str)]) -> String {
    let args: Vec<OsString> = ["app"].iter().chain(args).map(OsString::from).collect();
    let env = |name: &str| {
        let found = env.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    match read("app", "about", OWN, args, env) {
        Ok(CommandLine::PrintConfig(text)) => text,
        other => panic!("expected CommandLine::PrintConfig, not {other:?}"),
    }
}

#[test]
fn prints_each_value_with_its_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.yaml");
    std::fs::write(&path, "workers: 7\nresource-filter:\n  ats: default/a*\n").unwrap();
    let path = path.to_str().unwrap();
    let text = printed(
        &["-c", path, "--print-config", "--leader-elect", "-v"],
        &[("LIST_TIMEOUT", "2s")],
    );
    let source = |line: &str| {
        let found = text.lines().find(|found| found.trim_start().starts_with(line));
        let found = found.unwrap_or_else(|| panic!("no {line} in\n{text}"));
        found.split_once("  # ").unwrap().1.replace(path, "app.yaml")
    };
    assert_eq!(source("workers: 7"), "app.yaml:1");
    assert_eq!(source("ats: \"default/a*\""), "app.yaml:3");
    assert_eq!(source("listTimeout: 2s"), "environment variable LIST_TIMEOUT");
    assert_eq!(source("leader-elect: true"), "flag --leader-elect");
    assert_eq!(source("level: 4"), "flag -v");
    assert_eq!(source("image: redis:8"), "default");
    assert_eq!(source("dependencies: {}"), "default");
}

#[test]
fn the_printed_example_is_the_default_configuration() {
    let text = printed(&["--print-config=example"], &[]);
    let (of_framework, own) = text.split_once("redis:\n").unwrap();
    assert_eq!(
        Config::from_yaml("example.yaml", of_framework),
        Ok(Config::default())
    );
    assert_eq!(own.trim(), "# The image\n  image: redis:8");
}

#[test]
fn the_documented_table_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manager/config/keys.md");
    let wanted = k3_config::markdown_table(&Settings::new(&[]).table) + "\n";
    if std::env::var_os("K3_UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == wanted,
        "{path} is outdated: run `K3_UPDATE_DOCS=1 cargo nextest run -p kubecontroller config::` and review the change"
    );
}
