//! Tokens: of service accounts, of `k3 token create`, and the restrictions on kubectl's tokens.

use std::fs;

use crate::{
    cluster::TestCluster,
    program::{TestDataDir, outcome},
};

/// Runs `kubectl get secrets` with a token and returns the error, which names the user or is Unauthorized.
fn bear(cluster: &TestCluster, token: &str) -> String {
    let (_, _, errors) = outcome(cluster.bearer(token).args(["get", "secrets"]));
    errors
}

/// Whether the error is for this user.
fn is_forbidden_user(message: &str, name: &str) -> bool {
    message.contains(&format!("User \"{name}\" cannot list resource \"secrets\""))
}

fn is_unauthenticated(message: &str) -> bool {
    message.contains("You must be logged in to the server") && !message.contains("User \"")
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
fn tokens_become_invalid_with_their_service_account() {
    let cluster = TestCluster::start();
    cluster.kubectl("create serviceaccount robot");
    let token = cluster.kubectl("create token robot --duration=20m");
    let token = token.trim_end();
    let message = bear(&cluster, token);
    assert!(
        is_forbidden_user(&message, "system:serviceaccount:default:robot"),
        "{message}"
    );
    let other = cluster.kubectl("create token robot --audience=vault");
    let message = bear(&cluster, other.trim_end());
    assert!(is_unauthenticated(&message), "{message}");
    cluster.kubectl("delete serviceaccount robot");
    let message = bear(&cluster, token);
    assert!(is_unauthenticated(&message), "{message}");
    cluster.kubectl("create serviceaccount robot");
    let message = bear(&cluster, token);
    assert!(
        is_unauthenticated(&message),
        "another one of the same name: {message}"
    );
}

#[test]
fn lists_and_revokes_join_tokens() {
    let cluster = TestCluster::start();
    for shorten in [false, true] {
        let (code, line, errors) = outcome(&mut cluster.token("create --join"));
        assert_eq!(code, Some(0), "{errors}");
        let token = line.split_whitespace().last().unwrap();
        let (id, secret) = token.rsplit_once("::").unwrap().1.split_once('.').unwrap();
        let (_, list, _) = outcome(&mut cluster.token("list"));
        assert!(list.contains(id) && list.contains("nodes that join"), "{list}");
        assert!(!list.contains(secret), "{list}");
        assert!(!is_unauthenticated(&bear(&cluster, &format!("{id}.{secret}"))));
        let named = if shorten { id } else { token };
        let (code, output, errors) = outcome(&mut cluster.token(&format!("revoke {named}")));
        assert_eq!((code, output), (Some(0), format!("revoked {id}\n")), "{errors}");
        assert!(is_unauthenticated(&bear(&cluster, &format!("{id}.{secret}"))));
        let (_, list, _) = outcome(&mut cluster.token("list"));
        assert!(!list.contains(id), "{list}");
    }
}

#[test]
fn creates_lists_and_revokes_tokens() {
    let cluster = TestCluster::start_with(&["-v=10"]);
    let (token, id) = create(&cluster, "--user alice --group devs,qa --ttl 30m");
    let message = bear(&cluster, &token);
    assert!(is_forbidden_user(&message, "alice"), "{message}");
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
    let message = bear(&cluster, &token);
    assert!(is_unauthenticated(&message), "{message}");
    let (code, _, message) = outcome(&mut cluster.token(&format!("revoke {id}")));
    assert_eq!(code, Some(1));
    assert!(message.contains("not found"), "{message}");
    // However much is said, no token is, nor a part of one.
    assert!(!cluster.log().contains(half), "{}", cluster.log());
}

#[test]
fn expired_tokens_are_rejected_and_deleted() {
    let cluster = TestCluster::start();
    let (token, id) = create(&cluster, "--user alice --ttl 3s");
    let secret = format!("secret/ephemeral-token-{id}");
    cluster.kubectl(&format!(
        "wait --for=delete {secret} -n kube-system --timeout=60s"
    ));
    let message = bear(&cluster, &token);
    assert!(is_unauthenticated(&message), "{message}");
    let (_, list, _) = outcome(&mut cluster.token("list"));
    assert!(!list.contains(&id), "{list}");
}

#[test]
fn permission_to_write_secrets_does_not_create_users() {
    let cluster = TestCluster::start();
    let (token, _) = create(&cluster, "--user eve --group devs");
    let flags = "--user root --group system:masters --kubeconfig";
    cluster.kubectl("create clusterrolebinding eve --clusterrole=cluster-admin --user=eve");
    let _ = cluster.bearer(&token);
    let line = format!("create {flags} {}", cluster.path("bearer.kubeconfig"));
    let (code, output, message) = outcome(&mut cluster.token(&line));
    assert_eq!(code, Some(1), "{output}");
    assert!(message.contains("forbidden"), "{message}");
    assert_eq!(output, "");
}

#[test]
fn usage_errors_do_not_repeat_tokens() {
    let cluster = TestCluster::start();
    for (line, word) in [
        ("create", "--user"),
        ("create --user a --ttl soon", "1h30m"),
        ("create --user a --ttl 400d", "year"),
        ("revoke s3cret-s3cret", "lower case letters"),
    ] {
        let (code, output, message) = outcome(&mut cluster.token(line));
        assert_eq!(code, Some(2), "{line}: {output}{message}");
        assert!(
            message.contains(word) && !message.contains("s3cret"),
            "{line}: {message}"
        );
    }
    let (code, _, message) = outcome(&mut cluster.token("list --kubeconfig nowhere"));
    assert_eq!(code, Some(1));
    assert!(
        message.contains("nowhere") && message.contains("--data-dir"),
        "{message}"
    );
}

#[test]
fn rejects_disabled_kubectl() {
    let cluster = TestCluster::refusing(&["--kubectl-disabled"]);
    for call in [
        "get namespaces",
        "create namespace a",
        "version",
        "get --raw /api",
    ] {
        let (_, message) = cluster.kubectl_error(call);
        assert!(message.contains("kubectl disabled"), "{call}: {message}");
    }
    let (code, _, message) = outcome(&mut cluster.token("list"));
    assert_eq!(code, Some(0), "other programs go on: {message}");
}

#[test]
fn requires_short_lived_kubectl_tokens() {
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
    let message = bear(&cluster, "s3cret-static");
    assert!(is_unauthenticated(&message), "{message}");
    let robot = "system:serviceaccount:default:default";
    let account = |life: &str| cluster.kubectl(&format!("create token default --duration={life}"));
    for (token, user) in [
        (create(&cluster, "--user alice").0, "alice"),
        (account("30m"), robot),
    ] {
        let message = bear(&cluster, token.trim_end());
        assert!(is_forbidden_user(&message, user), "{message}");
    }
    for token in [create(&cluster, "--user alice --ttl 2h").0, account("3h")] {
        let message = bear(&cluster, token.trim_end());
        assert!(is_unauthenticated(&message), "{message}");
    }
    assert!(!cluster.log().contains("s3cret-static"));
}
