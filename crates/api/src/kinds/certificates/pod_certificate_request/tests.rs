use k3_pki::Certificate;

use super::{super::samples, *};
use crate::time::Duration;

fn messages(call: impl FnOnce(&mut Errors)) -> Vec<String> {
    let mut errors = Errors::new();
    call(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn request() -> Value {
    let mut object = json!({"spec": {
        "signerName": "example.com/s",
        "podName": "p", "podUID": "1",
        "serviceAccountName": "s", "serviceAccountUID": "2",
        "nodeName": "n", "nodeUID": "3",
        "stubPKCS10Request": base64::encode(&samples::request()),
    }});
    PodCertificateRequest.default(&mut object);
    object
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn a_day_is_asked_for_and_the_key_must_be_strong() {
    let object = request();
    assert_eq!(object["spec"]["maxExpirationSeconds"], 86400);
    assert_eq!(
        messages(|errors| validate_spec(object.at("spec"), errors)),
        [
            "spec.stubPKCS10Request: Invalid value: \"2048-bit modulus\": RSA keys must have modulus size 3072 or 4096"
        ]
    );
}

#[test]
fn signers_of_the_project_certify_for_a_day_at_most() {
    let mut object = request();
    object["spec"]["maxExpirationSeconds"] = json!(86401);
    object["spec"].remove("stubPKCS10Request");
    let missing = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    assert_eq!(
        messages(|errors| validate_spec(object.at("spec"), errors)),
        [missing]
    );
    object["spec"]["signerName"] = json!("kubernetes.io/s");
    assert_eq!(
        messages(|errors| validate_spec(object.at("spec"), errors)),
        [
            "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]",
            missing
        ]
    );
}

#[test]
fn a_request_ends_once_and_in_one_way() {
    let now = Time::from_unix(0, 0);
    let with = |conditions: Value| {
        let mut object = request();
        object.set("status", json!({"conditions": conditions}));
        object
    };
    let change = |new: &Value, old: &Value| messages(|errors| validate_status(new, old, now, errors));
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
fn what_is_issued_is_for_the_key_that_was_asked_for() {
    let now = Time::from_unix(0, 0);
    let old = request();
    let mut new = request();
    new.set("status", json!({"conditions": [condition("Issued")]}));
    let change = |new: &Value| messages(|errors| validate_status(new, &old, now, errors));
    assert_eq!(
        change(&new),
        [
            "status.certificateChain: Invalid value: \"\": issued certificate chain must contain at least one certificate"
        ]
    );
    new["status"]["certificateChain"] = json!(samples::AUTHORITY);
    assert!(change(&new)[0].ends_with("leaf certificate was not issued to the requested public key"));
}

#[test]
fn the_times_are_those_of_the_certificate() {
    let bytes = samples::authority();
    let leaf = Certificate::from_der(&bytes).unwrap();
    let begin = Time::parse("2026-11-15T21:02:51Z").unwrap();
    let msgs = |status: Value, now: Time| -> Vec<String> {
        let object = json!({"spec": {"maxExpirationSeconds": 86400}, "status": status});
        let msgs = issued::time_faults(&object, &leaf, now).into_iter();
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
fn a_table_shows_the_end_of_a_request() {
    let mut object = request();
    object["spec"]["unverifiedUserAnnotations"] = json!({"b.io/x": "1", "a.io/x": "2"});
    object.set("status", json!({"conditions": [condition("Failed")]}));
    let cells = PodCertificateRequest.row(&object, Time::from_unix(0, 0)).cells;
    assert_eq!(cells[5..], [json!("Failed"), json!("a.io/x=2,b.io/x=1")]);
    let cells = PodCertificateRequest.row(&request(), Time::from_unix(0, 0)).cells;
    assert_eq!(cells[5..], [json!("Pending"), json!("<none>")]);
}
