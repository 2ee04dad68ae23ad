use super::{super::samples, *};
use crate::{
    kinds::builtin,
    strategy::{self, User, WrittenPart},
};

fn messages(call: impl FnOnce(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    call(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn request() -> Value {
    json!({
        "metadata": {"name": "x", "resourceVersion": "1"},
        "spec": {
            "request": base64::encode(samples::CERTIFICATE_REQUEST.as_bytes()),
            "signerName": "example.com/s",
            "usages": ["client auth"],
        },
        "status": {},
    })
}

/// Writes conditions through an endpoint: returns the new object, or the message.
fn write(old: &Value, part: WrittenPart<'_>, status: Value) -> Result<Value, String> {
    let user = User {
        name: "u".into(),
        ..User::default()
    };
    let at = StrategyContext {
        kind: builtin()
            .kind("certificates.k8s.io", "v1", "CertificateSigningRequest")
            .unwrap(),
        now: Time::from_unix(0, 0),
        user: &user,
    };
    let mut new = old.clone();
    new.set("status", status);
    strategy::update(&mut new, old, part, &at)
        .map(|_| new)
        .map_err(|status| status.to_json())
}

#[test]
fn rejects_malformed_requests() {
    assert_eq!(
        messages(|errors| validate_certificate_signing_request(&request(), None, errors)),
        [""; 0]
    );
    let mut object = request();
    object["spec"]["request"] = json!(base64::encode(samples::CA_CERTIFICATE.as_bytes()));
    assert!(
        messages(|errors| validate_certificate_signing_request(&object, None, errors))[0]
            .ends_with(": PEM block type must be CERTIFICATE REQUEST")
    );
}

/// After a non-minimal length they ask for the group `system:masters` and the host `kubernetes.default.svc`. Where one parser
/// stops there and another continues, something is hidden from one of them.
#[test]
fn rejects_requests_with_non_minimal_lengths() {
    const GROUP: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkJUQ0JyQUlCQURCS01SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTR4R1RBWEJnTlZCQW9NZ2dBT2MzbHpkR1Z0T20xaGMzUmxjbk13V1RBVEJnY3Foa2pPClBRSUJCZ2dxaGtqT1BRTUJCd05DQUFRTVluNEV4OEpDN0lqaVhEMEVsMEVMYXV1Ulh6UGQ2M3ZEUFNWK201VTcKQ2hLOVJsRVN2SHMvU2NhdVRwOTZiV1dxSlZIUHVzQWt5WGNEQTc5S1VZSmpvQUF3Q2dZSUtvWkl6ajBFQXdJRApTQUF3UlFJaEFOTzc4KzlDblorZm5Sb1Uyb0lUR3dtRUV6c2IwNTN1S0QvaXNVY01vQzh2QWlCcGQ0STMwNGNaCnVXYUVCT0NLdzYvWlFnMU1vRnBXQjU0NHM1ZXhFbGgyMEE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    const HOST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQktqQ0IwQUlCQURBdk1SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTR3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVFNWW40RXg4SkM3SWppClhEMEVsMEVMYXV1Ulh6UGQ2M3ZEUFNWK201VTdDaEs5UmxFU3ZIcy9TY2F1VHA5NmJXV3FKVkhQdXNBa3lYY0QKQTc5S1VZSmpvRDh3UFFZSktvWklodmNOQVFrT01UQXdMakFzQmdOVkhSRUVKVEFqZ2dGdWh3UUtBQUFCZ29JQQpGbXQxWW1WeWJtVjBaWE11WkdWbVlYVnNkQzV6ZG1Nd0NnWUlLb1pJemowRUF3SURTUUF3UmdJaEFPQnYxSHZECjFWUllUZjVIVHFqSFNUN3hSL01tSVZibiszVE9hOUxObGxBWkFpRUFqN0VSdVVzaEx3Vkw2RUxVQ3UrTDR6eWQKdjhlYXgya0ZMdVpVcytKQTRQTT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
    for hidden in [GROUP, HOST] {
        let mut object = request();
        object["spec"]["request"] = json!(hidden);
        let errors = messages(|errors| validate_certificate_signing_request(&object, None, errors));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with("spec.request: Invalid value"), "{errors:?}");
        assert!(parse_certificate_request(hidden).is_err());
    }
}

#[test]
fn sets_the_user_of_the_request() {
    let mut object = request();
    object["spec"]["username"] = json!("mallory");
    object["status"] = json!({"certificate": "eA=="});
    let user = User {
        name: "u".into(),
        groups: vec!["g".into()],
        extra: vec![("k".into(), vec!["v".into()])],
        ..User::default()
    };
    let at = StrategyContext {
        kind: &builtin().all()[0],
        now: Time::from_unix(0, 0),
        user: &user,
    };
    CertificateSigningRequest.prepare_for_create(&mut object, &at);
    let spec = object.at("spec");
    assert_eq!((spec.text("username"), spec.has("uid")), ("u", false));
    assert_eq!(
        (&spec["groups"], &spec["extra"]),
        (&json!(["g"]), &json!({"k": ["v"]}))
    );
    assert_eq!(object["status"], json!({}));
}

#[test]
fn approval_is_written_only_by_its_subresource() {
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let rejection = write(&request(), WrittenPart::Status, approved.clone()).unwrap_err();
    assert!(rejection.contains("updates may not add a condition of type"));
    let object = write(&request(), WrittenPart::Other("approval"), approved).unwrap();
    let condition = &conditions::conditions(&object)[0];
    assert_eq!(condition.text("lastUpdateTime"), "1970-01-01T00:00:00Z");
    assert_eq!(condition.text("lastTransitionTime"), "1970-01-01T00:00:00Z");
    let rejection = write(&object, WrittenPart::Other("approval"), json!({})).unwrap_err();
    assert!(rejection.contains("updates may not remove a condition of type"));
}

#[test]
fn rejects_both_approved_and_denied() {
    let mut object = request();
    object["status"] =
        json!({"conditions": [{"type": "Denied", "status": "True"}, {"type": "Approved", "status": "True"}]});
    let errors =
        messages(|errors| validate_update_by_endpoint(&object, &request(), UpdateEndpoint::Approval, errors));
    assert_eq!(
        errors,
        [
            "status.conditions: Invalid value: \"{conditions[{\\\"type\\\": \\\"Approved\\\"}], conditions[{\\\"type\\\": \
             \\\"Denied\\\"}]}\": must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, \
             `conditions[{\"type\": \"Denied\"}]`"
        ]
    );
    assert_eq!(
        messages(|errors| validate_update_by_endpoint(&object, &object, UpdateEndpoint::Approval, errors)),
        [""; 0]
    );
}

#[test]
fn certificate_is_written_once_by_the_status() {
    let issued_certificate = json!({"certificate": base64::encode(samples::CA_CERTIFICATE.as_bytes())});
    let object = write(&request(), WrittenPart::Status, issued_certificate.clone()).unwrap();
    assert_eq!(format_csr_state(&object), "Pending,Issued");
    assert_eq!(
        write(&object, WrittenPart::Status, issued_certificate).unwrap(),
        object
    );
    let twice = base64::encode(
        [samples::CA_CERTIFICATE, samples::CA_CERTIFICATE]
            .concat()
            .as_bytes(),
    );
    let rejection = write(&object, WrittenPart::Status, json!({"certificate": twice})).unwrap_err();
    assert!(rejection.contains("updates may not modify existing certificate content"));
    let rejection = write(&request(), WrittenPart::Status, json!({"certificate": "eA=="})).unwrap_err();
    assert!(rejection.contains("must contain at least one CERTIFICATE PEM block"));
}

#[test]
fn row_shows_the_state() {
    let mut object = request();
    object["spec"]["expirationSeconds"] = json!(3600);
    object["status"] = json!({"conditions": [{"type": "Approved"}, {"type": "Failed"}]});
    let cells = CertificateSigningRequest
        .row(&object, Time::from_unix(0, 0))
        .cells;
    assert_eq!(
        cells[2..],
        [
            json!("example.com/s"),
            json!(""),
            json!("60m"),
            json!("Approved,Failed")
        ]
    );
}
