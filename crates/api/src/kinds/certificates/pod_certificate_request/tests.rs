use k3_duration::Duration;
use k3_pki::Certificate;

use super::{super::samples, *};

fn messages(call: impl FnOnce(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    call(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn request() -> Value {
    let mut object = json!({"spec": {
        "signerName": "example.com/s",
        "podName": "p", "podUID": "1",
        "serviceAccountName": "s", "serviceAccountUID": "2",
        "nodeName": "n", "nodeUID": "3",
        "stubPKCS10Request": crate::base64::encode(&samples::certificate_request()),
    }});
    PodCertificateRequest.set_defaults(&mut object);
    object
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn defaults_expiration_and_rejects_weak_keys() {
    let object = request();
    assert_eq!(object["spec"]["maxExpirationSeconds"], 86400);
    assert_eq!(
        messages(|errors| validate_pod_certificate_request_spec(object.at("spec"), errors)),
        [
            "spec.stubPKCS10Request: Invalid value: \"2048-bit modulus\": RSA keys must have modulus size 3072 or 4096"
        ]
    );
}

#[test]
fn limits_lifetime_for_kubernetes_signers() {
    let mut object = request();
    object["spec"]["maxExpirationSeconds"] = json!(86401);
    object["spec"].remove("stubPKCS10Request");
    let missing = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    assert_eq!(
        messages(|errors| validate_pod_certificate_request_spec(object.at("spec"), errors)),
        [missing]
    );
    object["spec"]["signerName"] = json!("kubernetes.io/s");
    assert_eq!(
        messages(|errors| validate_pod_certificate_request_spec(object.at("spec"), errors)),
        [
            "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]",
            missing
        ]
    );
}

#[test]
fn rejects_a_second_terminal_condition() {
    let now = Time::from_unix(0, 0);
    let with = |conditions: Value| {
        let mut object = request();
        object.set("status", json!({"conditions": conditions}));
        object
    };
    let change = |new: &Value, old: &Value| messages(|errors| validate_status_update(new, old, now, errors));
    let open = request();
    let denied = with(json!([condition("Denied")]));
    assert_eq!(change(&denied, &open), [""; 0]);
    assert_eq!(change(&denied, &denied), [""; 0]);
    assert_eq!(
        change(&open, &denied),
        ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"]
    );
    assert_eq!(
        change(&with(json!([condition("Denied"), condition("Failed")])), &open),
        [
            "status.conditions.[1].type: Invalid value: \"Failed\": There may be at most one condition with type \
          \"Issued\", \"Denied\", or \"Failed\""
        ]
    );
    assert_eq!(
        change(&with(json!([condition("Other")])), &open),
        [
            "status.conditions.[0].type: Unsupported value: \"Other\": supported values: \"Issued\", \"Denied\", \
          \"Failed\""
        ]
    );
}

#[test]
fn rejects_certificates_for_another_key() {
    let now = Time::from_unix(0, 0);
    let old = request();
    let mut new = request();
    new.set("status", json!({"conditions": [condition("Issued")]}));
    let change = |new: &Value| messages(|errors| validate_status_update(new, &old, now, errors));
    assert_eq!(
        change(&new),
        [
            "status.certificateChain: Invalid value: \"\": issued certificate chain must contain at least one certificate"
        ]
    );
    new["status"]["certificateChain"] = json!(samples::CA_CERTIFICATE);
    assert!(change(&new)[0].ends_with("leaf certificate was not issued to the requested public key"));
}

#[test]
fn rejects_times_that_differ_from_the_certificate() {
    let bytes = samples::ca_certificate();
    let leaf = Certificate::from_der(&bytes).unwrap();
    let begin = Time::parse("2026-11-15T21:02:51Z").unwrap();
    let msgs = |status: Value, now: Time| -> Vec<String> {
        let object = json!({"spec": {"maxExpirationSeconds": 86400}, "status": status});
        let msgs = issued_certificate::validate_times(&object, &leaf, now).into_iter();
        msgs.map(|error| error.detail).collect()
    };
    assert_eq!(msgs(json!({}), begin).len(), 3);
    let status = json!({
        "notBefore": "2026-11-15T21:02:51Z",
        "notAfter": "2126-10-22T21:02:51Z",
        "beginRefreshAt": "2027-01-01T00:00:00Z",
    });
    assert_eq!(
        msgs(status.clone(), begin),
        ["leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"]
    );
    assert_eq!(
        msgs(status, begin.plus(Duration::from_seconds(301))),
        ["must be set to within 5 minutes of kube-apiserver's current time"]
    );
}

#[test]
fn row_shows_the_terminal_condition() {
    let mut object = request();
    object["spec"]["unverifiedUserAnnotations"] = json!({"b.io/x": "1", "a.io/x": "2"});
    object.set("status", json!({"conditions": [condition("Failed")]}));
    let cells = PodCertificateRequest.row(&object, Time::from_unix(0, 0)).cells;
    assert_eq!(cells[5..], [json!("Failed"), json!("a.io/x=2,b.io/x=1")]);
    let cells = PodCertificateRequest.row(&request(), Time::from_unix(0, 0)).cells;
    assert_eq!(cells[5..], [json!("Pending"), json!("<none>")]);
}
