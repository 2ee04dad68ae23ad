//! The timeout of a request.

use std::time::Duration;

use k3_api::status::Status;
use k3_duration::NegativeDurationError;

/// The timeout of a request: its `?timeout=`, up to the server's limit.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go WithRequestDeadline, parseTimeout
pub(super) fn of(said: &str, max: Duration) -> Result<Duration, Status> {
    if said.is_empty() {
        return Ok(max);
    }
    match k3_duration::parse(said) {
        // Zero is no wish, and neither is less.
        Ok(Duration::ZERO) | Err(NegativeDurationError::Negative) => Ok(max),
        Ok(said) => Ok(said.min(max)),
        Err(NegativeDurationError::Parse(error)) => Err(Status::bad_request(format!(
            "invalid timeout specified in the request URL - {error}"
        ))),
    }
}

/// The error of a request that timed out.
pub(super) fn over() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_parameter_may_only_shorten() {
        let max = Duration::from_mins(1);
        for (said, given) in [
            ("", 60_000),
            ("10s", 10_000),
            ("250ms", 250),
            ("2m", 60_000),
            ("0s", 60_000),
            ("-5s", 60_000),
        ] {
            assert_eq!(of(said, max).unwrap(), Duration::from_millis(given), "{said}");
        }
        let refused = of("soon", max).unwrap_err();
        assert_eq!(refused.code, 400);
        assert_eq!(
            refused.message,
            "invalid timeout specified in the request URL - time: invalid duration \"soon\""
        );
    }

    #[test]
    fn timeout_status_matches_upstream() {
        let status = over();
        assert_eq!(status.code, 504);
        assert_eq!(
            status.message,
            "Timeout: request did not complete within the allotted timeout"
        );
    }
}
