//! HTTP probes: a GET request succeeds with status 200 to 399.

use crate::probes::{
    http::{self, RequestPurpose},
    probe_kind::{ProbeContext, ProbeFuture, ProbeKind},
};

pub(super) struct HttpGetProbe;

impl ProbeKind for HttpGetProbe {
    fn probe<'a>(&self, context: ProbeContext<'a>) -> Option<ProbeFuture<'a>> {
        let target = context.target;
        let action = target.probe.http_get.as_ref()?;
        Some(Box::pin(async move {
            let container = &target.container;
            let attempt = http::get(
                action,
                container,
                &target.address,
                RequestPurpose::Probe,
                context.limit,
            );
            Ok(attempt.await?)
        }))
    }
}
