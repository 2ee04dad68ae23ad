//! Tokens: of service accounts, for people for a while, and what is asked of those that kubectl uses.

use std::fs;

use crate::{
    cluster::TestCluster,
    program::{TestDataDir, outcome},
};

/// What kubectl says when it bears a token and asks for what only administrators may see: who one is, or that one is nobody.
fn bear(cluster: &TestCluster, token: &str) -> String {
    let (_, _, errors) = outcome(cluster.bearer(token).args(["get", "secrets"]));
    errors
}

/// Whether that is the answer to this user.
fn is_user(said: &str, name: &str) -> bool {
    said.contains(&format!("User \"{name}\" cannot list resource \"secrets\""))
}

fn is_nobody(said: &str) -> bool {
    said.contains("You must be logged in to the server") && !said.contains("User \"")
}

/// A token that `k3 token create` makes, and its id.
fn create(cluster: &TestCluster, line: &str) -> (String, String) {
    let (code, output, errors) = outcome(&mut cluster.token(&format!("create {line}")));
    assert_eq!(code, Some(0), "{output}{errors}");
    assert_eq!(output.lines().count(), 1, "{output}");
    let token = output.trim_end().to_owned();
    let id = token
        .strip_prefix("k3t-")
        .and_then(|rest| rest.split_once('.'))
        .unwrap()
        .0
        .to_owned();
    assert!(errors.contains(&id) && !errors.contains(&token), "{errors}");
    (token, id)
}

#[test]
fn kubectl_makes_a_token_of_a_service_account_which_dies_with_it() {
    let cluster = TestCluster::start();
    cluster.kubectl("create serviceaccount robot");
    let token = cluster.kubectl("create token robot --duration=20m");
    let token = token.trim_end();
    let said = bear(&cluster, token);
    assert!(is_user(&said, "system:serviceaccount:default:robot"), "{said}");
    let other = cluster.kubectl("create token robot --audience=vault");
    let said = bear(&cluster, other.trim_end());
    assert!(is_nobody(&said), "{said}");
    cluster.kubectl("delete serviceaccount robot");
    let said = bear(&cluster, token);
    assert!(is_nobody(&said), "{said}");
    cluster.kubectl("create serviceaccount robot");
    let said = bear(&cluster, token);
    assert!(is_nobody(&said), "another one of the same name: {said}");
}

#[test]
fn a_token_to_join_with_is_listed_and_revoked_by_its_id_or_as_a_whole() {
    let cluster = TestCluster::start();
    for shorten in [false, true] {
        let (code, line, errors) = outcome(&mut cluster.token("create --join"));
        assert_eq!(code, Some(0), "{errors}");
        let token = line.split_whitespace().last().unwrap();
        let (id, secret) = token.rsplit_once("::").unwrap().1.split_once('.').unwrap();
        let (_, list, _) = outcome(&mut cluster.token("list"));
        assert!(list.contains(id) && list.contains("nodes that join"), "{list}");
        assert!(!list.contains(secret), "{list}");
        assert!(!is_nobody(&bear(&cluster, &format!("{id}.{secret}"))));
        let named = if shorten { id } else { token };
        let (code, output, errors) = outcome(&mut cluster.token(&format!("revoke {named}")));
        assert_eq!((code, output), (Some(0), format!("revoked {id}\n")), "{errors}");
        assert!(is_nobody(&bear(&cluster, &format!("{id}.{secret}"))));
        let (_, list, _) = outcome(&mut cluster.token("list"));
        assert!(!list.contains(id), "{list}");
    }
}

#[test]
fn a_token_for_a_while_is_made_listed_used_and_revoked() {
    let cluster = TestCluster::start_with(&["-v=10"]);
    let (token, id) = create(&cluster, "--user alice --group devs,qa --ttl 30m");
    let said = bear(&cluster, &token);
    assert!(is_user(&said, "alice"), "{said}");
    let (_, list, _) = outcome(&mut cluster.token("list"));
    assert!(list.contains(&id) && list.contains("devs,qa"), "{list}");
    assert!(!list.contains(&token), "{list}");
    let half = token.split_once('.').unwrap().1;
    let secrets = cluster.kubectl("get secrets -n kube-system -o yaml");
    assert!(secrets.contains(&id) && !secrets.contains(half), "{secrets}");
    let (code, output, _) = outcome(&mut cluster.token(&format!("revoke {id}")));
    assert_eq!(
        (code, output.as_str()),
        (Some(0), format!("revoked {id}\n").as_str())
    );
    let said = bear(&cluster, &token);
    assert!(is_nobody(&said), "{said}");
    let (code, _, said) = outcome(&mut cluster.token(&format!("revoke {id}")));
    assert_eq!(code, Some(1));
    assert!(said.contains("not found"), "{said}");
    // However much is said, no token is, nor a part of one.
    assert!(!cluster.log().contains(half), "{}", cluster.log());
}

#[test]
fn a_token_whose_time_is_over_is_refused_and_goes() {
    let cluster = TestCluster::start();
    let (token, id) = create(&cluster, "--user alice --ttl 3s");
    let secret = format!("secret/ephemeral-token-{id}");
    cluster.kubectl(&format!(
        "wait --for=delete {secret} -n kube-system --timeout=60s"
    ));
    let said = bear(&cluster, &token);
    assert!(is_nobody(&said), "{said}");
    let (_, list, _) = outcome(&mut cluster.token("list"));
    assert!(!list.contains(&id), "{list}");
}

#[test]
fn who_may_write_secrets_does_not_make_users() {
    let cluster = TestCluster::start();
    let (token, _) = create(&cluster, "--user eve --group devs");
    let flags = "--user root --group system:masters --kubeconfig";
    cluster.kubectl("create clusterrolebinding eve --clusterrole=cluster-admin --user=eve");
    let _ = cluster.bearer(&token);
    let line = format!("create {flags} {}", cluster.path("bearer.kubeconfig"));
    let (code, output, said) = outcome(&mut cluster.token(&line));
    assert_eq!(code, Some(1), "{output}");
    assert!(said.contains("forbidden"), "{said}");
    assert_eq!(output, "");
}

#[test]
fn calls_that_make_no_sense_are_told_and_tokens_are_not_repeated() {
    let cluster = TestCluster::start();
    for (line, word) in [
        ("create", "--user"),
        ("create --user a --ttl soon", "1h30m"),
        ("create --user a --ttl 400d", "year"),
        ("revoke s3cret-s3cret", "small letters"),
    ] {
        let (code, output, said) = outcome(&mut cluster.token(line));
        assert_eq!(code, Some(2), "{line}: {output}{said}");
        assert!(said.contains(word) && !said.contains("s3cret"), "{line}: {said}");
    }
    let (code, _, said) = outcome(&mut cluster.token("list --kubeconfig nowhere"));
    assert_eq!(code, Some(1));
    assert!(said.contains("nowhere") && said.contains("--data-dir"), "{said}");
}

#[test]
fn kubectl_is_refused_where_it_is_disabled() {
    let cluster = TestCluster::refusing(&["--kubectl-disabled"]);
    for call in [
        "get namespaces",
        "create namespace a",
        "version",
        "get --raw /api",
    ] {
        let (_, said) = cluster.refused(call);
        assert!(said.contains("kubectl disabled"), "{call}: {said}");
    }
    let (code, _, said) = outcome(&mut cluster.token("list"));
    assert_eq!(code, Some(0), "other programs go on: {said}");
}

#[test]
fn kubectl_uses_tokens_that_end_soon_where_that_is_asked() {
    let data = TestDataDir::new();
    let tokens = data.path().join("tokens.csv");
    fs::write(&tokens, "s3cret-static,alice,u-1\n").unwrap();
    let tokens = format!("--token-auth-file={}", tokens.display());
    let flags = [
        &tokens,
        "--kubectl-ephemeral-token",
        "--kubectl-ephemeral-token-duration=1h",
    ];
    let cluster = TestCluster::start_on(data, &flags);
    let said = bear(&cluster, "s3cret-static");
    assert!(is_nobody(&said), "{said}");
    let robot = "system:serviceaccount:default:default";
    let account = |life: &str| cluster.kubectl(&format!("create token default --duration={life}"));
    for (token, user) in [
        (create(&cluster, "--user alice").0, "alice"),
        (account("30m"), robot),
    ] {
        let said = bear(&cluster, token.trim_end());
        assert!(is_user(&said, user), "{said}");
    }
    for token in [create(&cluster, "--user alice --ttl 2h").0, account("3h")] {
        let said = bear(&cluster, token.trim_end());
        assert!(is_nobody(&said), "{said}");
    }
    assert!(!cluster.log().contains("s3cret-static"));
}
