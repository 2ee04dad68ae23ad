use serde_json::json;

use super::*;
use crate::field::{Error, Path};

const PODS: GroupResource<'static> = GroupResource {
    group: "",
    name: "pods",
};
const DEPLOYMENTS: GroupResource<'static> = GroupResource {
    group: "apps",
    name: "deployments",
};

#[test]
fn a_missing_object_is_named_with_its_group() {
    assert_eq!(
        Status::not_found(DEPLOYMENTS, "web").to_json(),
        concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"deployments.apps \"web\" not found","reason":"NotFound","#,
            r#""details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#
        )
    );
}

#[test]
fn an_invalid_object_lists_a_cause_per_error() {
    let spec = Path::new("spec");
    let errors = [
        Error::required(&spec.child("a"), ""),
        Error::invalid(&spec.child("b"), 0, "no"),
    ];
    let status = Status::invalid(GroupResource::new("apps", "Deployment"), "web", &errors);
    assert_eq!(
        status.to_value(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Deployment.apps \"web\" is invalid: [spec.a: Required value, spec.b: Invalid value: 0: no]",
            "reason": "Invalid",
            "details": {"name": "web", "group": "apps", "kind": "Deployment", "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
                {"reason": "FieldValueInvalid", "message": "Invalid value: 0: no", "field": "spec.b"},
            ]},
            "code": 422,
        })
    );
    let none = Status::invalid(GroupResource::default(), "", &[]);
    assert_eq!(none.message, " \"\" is invalid");
}

#[test]
fn what_is_forbidden_is_named_as_far_as_it_is_known() {
    for (status, message) in [
        (Status::forbidden(PODS, "p", "no"), "pods \"p\" is forbidden: no"),
        (
            Status::forbidden(DEPLOYMENTS, "", "no"),
            "deployments.apps is forbidden: no",
        ),
        (
            Status::forbidden(GroupResource::default(), "p", "no"),
            "forbidden: no",
        ),
    ] {
        assert_eq!(
            (status.code, status.reason, status.message.as_str()),
            (403, StatusReason::Forbidden, message)
        );
    }
}

#[test]
fn each_constructor_has_its_code_reason_and_message() {
    for (status, code, reason, message) in [
        (
            Status::already_exists(PODS, "p"),
            409,
            "AlreadyExists",
            "pods \"p\" already exists",
        ),
        (
            Status::generate_name_conflict(PODS, "p", 1),
            409,
            "AlreadyExists",
            "pods \"p\" already exists, the server was not able to generate a unique name for the object",
        ),
        (Status::unauthorized(""), 401, "Unauthorized", "not authorized"),
        (
            Status::unauthorized("Unauthorized"),
            401,
            "Unauthorized",
            "Unauthorized",
        ),
        (
            Status::conflict(PODS, "p", "stale"),
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods \"p\": stale",
        ),
        (Status::gone("g"), 410, "Gone", "g"),
        (Status::expired("e"), 410, "Expired", "e"),
        (Status::bad_request("b"), 400, "BadRequest", "b"),
        (
            Status::too_many_requests("slow", 2),
            429,
            "TooManyRequests",
            "slow",
        ),
        (
            Status::too_many("slow"),
            429,
            "TooManyRequests",
            "Too many requests: slow",
        ),
        (
            Status::service_unavailable("down"),
            503,
            "ServiceUnavailable",
            "down",
        ),
    ] {
        assert_eq!(
            (status.code, status.reason.word(), status.message.as_str()),
            (code, reason, message)
        );
    }
}

#[test]
fn faults_of_the_server_and_of_the_form_have_their_words() {
    let retried = |name: &str| StatusDetails {
        name: name.to_owned(),
        retry_after_seconds: 2,
        ..StatusDetails::default()
    };
    for (status, code, reason, message) in [
        (
            Status::method_not_supported(DEPLOYMENTS, "create"),
            405,
            "MethodNotAllowed",
            "create is not supported on resources of kind \"deployments.apps\"",
        ),
        (Status::not_acceptable("n"), 406, "NotAcceptable", "n"),
        (
            Status::unsupported_media_type("u"),
            415,
            "UnsupportedMediaType",
            "u",
        ),
        (
            Status::request_entity_too_large("9"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: 9",
        ),
        (
            Status::server_timeout(PODS, "list", 2),
            500,
            "ServerTimeout",
            "The list operation against pods could not be completed at this time, please try again.",
        ),
        (Status::timeout("slow", 2), 504, "Timeout", "Timeout: slow"),
        (
            Status::internal_error("oops"),
            500,
            "InternalError",
            "Internal error occurred: oops",
        ),
        (Status::unknown("oops"), 500, "", "oops"),
        (
            Status::generic(422, "hidden"),
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        (
            Status::generic(404, "hidden"),
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
        (
            Status::generic(415, "415: no"),
            415,
            "UnsupportedMediaType",
            "415: no",
        ),
        (
            Status::generic(502, "a\nb"),
            502,
            "InternalError",
            "an error on the server (\"a\\nb\") has prevented the request from succeeding",
        ),
    ] {
        assert_eq!(
            (status.code, status.reason.word(), status.message.as_str()),
            (code, reason, message)
        );
    }
    assert_eq!(Status::timeout("x", 2).details, Some(Box::new(retried(""))));
    assert_eq!(
        Status::server_timeout(GroupResource::default(), "list", 2).details,
        Some(Box::new(retried("list")))
    );
}

#[test]
fn empty_details_are_written_and_missing_ones_are_not() {
    assert!(
        Status::generic(422, "")
            .to_json()
            .contains(r#""details":{},"code":422"#)
    );
    assert!(!Status::bad_request("b").to_json().contains("details"));
    assert_eq!(
        Status::success(StatusDetails {
            name: "a".into(),
            uid: "u".into(),
            ..StatusDetails::default()
        })
        .to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","uid":"u"}}"#
    );
    let page = Status {
        continue_token: "t".into(),
        ..Status::expired("e")
    };
    assert!(page.to_json().contains(r#""metadata":{"continue":"t"},"status""#));
}
