//! gRPC probes: the service `grpc.health.v1.Health` responds with `SERVING`.
// upstream: pkg/probe/grpc/grpc.go Probe

use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{self, Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::probes::{
    ProbeAttempt, ResolvePortError,
    dial::join_host_port,
    http::PROBE_USER_AGENT,
    probe_kind::{ProbeContext, ProbeFuture, ProbeKind},
};

/// Delay between attempts to connect.
const CONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) struct GrpcProbe;

impl ProbeKind for GrpcProbe {
    fn probe<'a>(&self, context: ProbeContext<'a>) -> Option<ProbeFuture<'a>> {
        let target = context.target;
        let action = target.probe.grpc.as_ref()?;
        Some(Box::pin(async move {
            let port =
                u16::try_from(action.port).map_err(|_| ResolvePortError::InvalidNumber(action.port))?;
            let service = action.service.as_deref().unwrap_or_default();
            Ok(probe(&target.address, port, service, context.limit).await)
        }))
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    /// Empty for the server as a whole.
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

/// Connects and checks the health. The limit covers both.
pub(in crate::probes) async fn probe(host: &str, port: u16, service: &str, limit: Duration) -> ProbeAttempt {
    let address = join_host_port(host, port);
    let deadline = Instant::now() + limit;
    let connect_timeout = || {
        let limit = k3_duration::format(limit);
        format!("timeout: failed to connect service \"{address}\" within {limit}: context deadline exceeded")
    };
    let channel = match timeout_at(deadline, connect(&address)).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(reason)) => {
            let message = format!("error: failed to connect service at \"{address}\": {reason}");
            return ProbeAttempt::Failure(message);
        }
        Err(_) => return ProbeAttempt::Failure(connect_timeout()),
    };
    let response = match timeout_at(deadline, check_health(channel, service)).await {
        Ok(response) => response,
        Err(_) => Err(Status::deadline_exceeded("")),
    };
    evaluate_response(response, limit)
}

/// Retries until it succeeds: a blocking dial of gRPC does the same. The caller limits the time.
async fn connect(address: &str) -> Result<Channel, transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.user_agent(PROBE_USER_AGENT)?;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) => sleep(CONNECT_RETRY_DELAY).await,
        }
    }
}

async fn check_health(channel: Channel, service: &str) -> Result<HealthCheckResponse, Status> {
    let mut client = Grpc::new(channel);
    let unavailable = |error: transport::Error| Status::unavailable(error.to_string());
    client.ready().await.map_err(unavailable)?;
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let response = client.unary(Request::new(request), path, codec).await?;
    Ok(response.into_inner())
}

fn evaluate_response(response: Result<HealthCheckResponse, Status>, limit: Duration) -> ProbeAttempt {
    let status = match response {
        Ok(response) => response.status,
        Err(status) => {
            let message = status.message();
            return ProbeAttempt::Failure(match status.code() {
                Code::Unimplemented => format!(
                    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
                ),
                Code::DeadlineExceeded => {
                    format!(
                        "timeout: health rpc did not complete within {}",
                        k3_duration::format(limit)
                    )
                }
                code => {
                    format!("error: health rpc probe failed: rpc error: code = {code:?} desc = {message}")
                }
            });
        }
    };
    if status == i32::from(ServingStatus::Serving) {
        return ProbeAttempt::Success("service healthy".to_owned());
    }
    let name = match ServingStatus::try_from(status) {
        Ok(ServingStatus::Unknown) => "UNKNOWN".to_owned(),
        Ok(ServingStatus::Serving) => "SERVING".to_owned(),
        Ok(ServingStatus::NotServing) => "NOT_SERVING".to_owned(),
        Ok(ServingStatus::ServiceUnknown) => "SERVICE_UNKNOWN".to_owned(),
        Err(_) => status.to_string(),
    };
    ProbeAttempt::Failure(format!("service unhealthy (responded with \"{name}\")"))
}
