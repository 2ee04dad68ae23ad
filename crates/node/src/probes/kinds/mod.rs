//! The kinds of probes, one file each.

mod exec;
pub(super) mod grpc;
mod http_get;
pub(super) mod tcp_socket;

use super::probe_kind::ProbeKind;

/// The kinds of probes. A kind is a file of this directory, and its line here.
// upstream: pkg/kubelet/prober/prober.go runProbe
pub(super) const PROBE_KINDS: &[&dyn ProbeKind] = &[
    &exec::ExecProbe,
    &http_get::HttpGetProbe,
    &tcp_socket::TcpSocketProbe,
    &grpc::GrpcProbe,
];
