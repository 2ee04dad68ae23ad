//! The health check of gRPC: well if the server says that it serves.

use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{Found, http::AGENT, look::length, port::joined};

/// How long to wait before a server that refused is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Which service is asked for; all of the server if it is empty.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "Health", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Health {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

/// Asks the server, within the limit.
pub(super) async fn look(host: &str, port: u16, service: &str, limit: Duration) -> Found {
    let address = joined(host, port);
    let end = Instant::now() + limit;
    let late = || {
        let limit = length(limit);
        format!("timeout: failed to connect service \"{address}\" within {limit}: context deadline exceeded")
    };
    let channel = match timeout_at(end, connect(&address)).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(why)) => {
            let why = format!("error: failed to connect service at \"{address}\": {why}");
            return Found::Unwell(why);
        }
        Err(_) => return Found::Unwell(late()),
    };
    let answer = match timeout_at(end, check(channel, service)).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("")),
    };
    judge(answer, limit)
}

/// A server that is not there yet may come within the limit.
async fn connect(address: &str) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let endpoint = endpoint.user_agent(AGENT).map_err(|error| error.to_string())?;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn check(channel: Channel, service: &str) -> Result<HealthCheckResponse, Status> {
    let mut client = Grpc::new(channel);
    let unready = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    client.ready().await.map_err(unready)?;
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let answer = client.unary(Request::new(request), path, codec).await?;
    Ok(answer.into_inner())
}

fn judge(answer: Result<HealthCheckResponse, Status>, limit: Duration) -> Found {
    let status = match answer {
        Ok(answer) => answer.status,
        Err(refusal) => {
            let words = refusal.message();
            return Found::Unwell(match refusal.code() {
                Code::Unimplemented => format!(
                    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {words}"
                ),
                Code::DeadlineExceeded => {
                    format!("timeout: health rpc did not complete within {}", length(limit))
                }
                code => format!("error: health rpc probe failed: rpc error: code = {code:?} desc = {words}"),
            });
        }
    };
    if status == i32::from(Health::Serving) {
        return Found::Well("service healthy".to_owned());
    }
    let name = match Health::try_from(status) {
        Ok(Health::Unknown) => "UNKNOWN".to_owned(),
        Ok(Health::Serving) => "SERVING".to_owned(),
        Ok(Health::NotServing) => "NOT_SERVING".to_owned(),
        Ok(Health::ServiceUnknown) => "SERVICE_UNKNOWN".to_owned(),
        Err(_) => status.to_string(),
    };
    Found::Unwell(format!("service unhealthy (responded with \"{name}\")"))
}
