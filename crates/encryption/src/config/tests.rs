use super::*;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn text(resources: &str) -> String {
    format!("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n{resources}")
}

fn parse(resources: &str) -> Result<EncryptionConfiguration, ConfigError> {
    EncryptionConfiguration::parse(text(resources).as_bytes())
}

fn rule(resources: &str, providers: &str) -> String {
    format!("- resources: {resources}\n  providers: {providers}\n")
}

#[test]
fn reads_all_providers_and_wildcards() {
    let keys = format!("{{keys: [{{name: k, secret: {KEY}}}]}}");
    let configuration = parse(&format!(
        "{}{}{}",
        rule("[events]", "[{identity: {}}]"),
        rule(
            "[secrets, configmaps, pandas.bears.example]",
            &format!("[{{secretbox: {keys}}}, {{aesgcm: {keys}}}, {{aescbc: {keys}}}, {{identity: {{}}}}]")
        ),
        rule(
            "['*.*']",
            "[{kms: {apiVersion: v2, name: plugin, endpoint: 'unix:///run/kms.sock', timeout: 500ms}}]"
        ),
    ))
    .unwrap();
    assert_eq!(configuration.rules.len(), 3);
    assert_eq!(configuration.rules[1].providers.len(), 4);
    let ProviderConfiguration::Kms(kms) = &configuration.rules[2].providers[0] else {
        panic!("{configuration:?}");
    };
    assert_eq!(kms.socket, PathBuf::from("/run/kms.sock"));
    assert_eq!(kms.timeout, Duration::from_millis(500));
    assert!(
        !format!("{configuration:?}").contains("[0, 1, 2"),
        "keys are not shown"
    );
}

#[test]
fn refuses_what_upstream_refuses_and_names_the_field() {
    let good = format!("[{{secretbox: {{keys: [{{name: k, secret: {KEY}}}]}}}}]");
    let key = |key: &str| rule("[secrets]", &format!("[{{aesgcm: {{keys: [{key}]}}}}]"));
    let kms = |kms: &str| rule("[secrets]", &format!("[{{kms: {{{kms}}}}}]"));
    let cases = [
        (String::new(), "resources: Required value"),
        (rule("[]", &good), "resources[0].resources: Required value"),
        (rule("[secrets]", "[]"), "resources[0].providers: Required value"),
        (
            rule("[secrets]", "[{}]"),
            "does not contain any of the expected providers",
        ),
        (
            rule("[secrets]", "[{rot13: {}}]"),
            "resources[0].providers[0].rot13: unknown field",
        ),
        (
            rule("[secrets]", "[{identity: {}, aesgcm: {keys: []}}]"),
            "more than one provider specified",
        ),
        (rule("[Secrets]", &good), "should not contain capital letters"),
        (rule("['*']", &good), "use '*.' to encrypt"),
        (rule("['secrets.*']", &good), "across groups is not supported"),
        (rule("[events.events.k8s.io]", &good), "Use 'events' instead"),
        (rule("[ingresses.extensions]", &good), "has been removed"),
        (
            rule("[secrets, secrets]", &good),
            "cannot be specified multiple times",
        ),
        (rule("[secrets, '*.']", &good), "overlapping resources"),
        (rule("[secrets, '*.*']", &good), "overlapping resources"),
        (
            rule("['*.*']", &good) + &rule("[secrets]", &good),
            "is masked by earlier rule",
        ),
        (
            rule("['*.apps']", &good) + &rule("[deployments.apps]", &good),
            "is masked by earlier rule",
        ),
        (key(&format!("{{secret: {KEY}}}")), "keys[0].name: Required value"),
        (key("{name: k}"), "keys[0].secret: Required value"),
        (key("{name: k, secret: 'not base64'}"), "must be base64 encoded"),
        (
            key("{name: k, secret: YWJj}"),
            "not of the expected length, got 3, expected one of [16, 24, 32]",
        ),
        (
            rule(
                "[secrets]",
                "[{secretbox: {keys: [{name: k, secret: MTIzNDU2Nzg5MDEyMzQ1Ng==}]}}]",
            ),
            "expected one of [32]",
        ),
        (kms("name: p, endpoint: 'unix:///s'"), "set apiVersion to v2"),
        (
            kms("apiVersion: v3, name: p, endpoint: 'unix:///s'"),
            "only v2 is supported",
        ),
        (
            kms("apiVersion: v2, endpoint: 'unix:///s'"),
            "name: Required value",
        ),
        (
            kms("apiVersion: v2, name: 'a:b', endpoint: 'unix:///s'"),
            "must not contain ':'",
        ),
        (kms("apiVersion: v2, name: p"), "endpoint is a mandatory field"),
        (
            kms("apiVersion: v2, name: p, endpoint: 'tcp://h:1'"),
            "only unix is supported",
        ),
        (
            kms("apiVersion: v2, name: p, endpoint: 'unix:///s', timeout: 0s"),
            "positive value",
        ),
        (
            kms("apiVersion: v2, name: p, endpoint: 'unix:///s', cachesize: 5"),
            "cachesize is not supported",
        ),
    ];
    for (resources, expected) in cases {
        let error = parse(&resources).unwrap_err().to_string();
        assert!(
            error.contains(expected),
            "{resources}\n{error}\nexpected {expected}"
        );
        assert!(!error.contains(KEY), "{error}");
    }
}

#[test]
fn messages_do_not_contain_what_may_be_a_secret() {
    let secret = "c2VjcmV0c2VjcmV0";
    let texts = [
        format!("{secret}: ["),
        format!("- {secret}\n  {secret}: x: y"),
        text(&rule("[secrets]", &format!("[{{aesgcm: {secret}}}]"))),
        text(&rule("[secrets]", &format!("[{{aesgcm: {{keys: {secret}}}}}]"))),
        text(&rule("[secrets]", &format!("[{{aesgcm: {{keys: [{secret}]}}}}]"))),
        text(&rule(
            "[secrets]",
            &format!("[{{aesgcm: {{keys: [{{name: k, secret: '{secret}'}}]}}}}]"),
        )),
    ];
    for text in texts {
        let error = EncryptionConfiguration::parse(text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(!error.contains(secret), "{error}");
    }
}

#[test]
fn refuses_other_kinds() {
    let error = EncryptionConfiguration::parse(b"kind: Pod\napiVersion: v1\n").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected kind EncryptionConfiguration"),
        "{error}"
    );
}
