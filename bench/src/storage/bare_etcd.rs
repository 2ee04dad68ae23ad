//! etcd itself, without the promises of a store around it: plain puts over many connections, and no
//! watch. The file store is compared with the best that etcd can do, not with our use of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::load::{Target, WrittenKey};
use crate::BenchError;

/// Connections that the writers share: more of them make etcd no faster.
const CONNECTIONS: usize = 16;
const PUT: &str = "/etcdserverpb.KV/Put";

/// Clients of an etcd.
pub(crate) struct BareEtcd {
    connections: Vec<Channel>,
    turn: AtomicUsize,
}

/// `PutRequest` of etcd's v3 API, as far as it is needed here.
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `PutResponse`, of which only the arrival matters.
#[derive(Clone, PartialEq, prost::Message)]
struct PutResponse {}

// --- BareEtcd ---

impl BareEtcd {
    pub(crate) fn new(endpoint: String) -> Result<Self, BenchError> {
        let endpoint = Endpoint::from_shared(endpoint)?.tcp_nodelay(true);
        Ok(Self {
            connections: (0..CONNECTIONS).map(|_| endpoint.connect_lazy()).collect(),
            turn: AtomicUsize::new(0),
        })
    }
}

impl Target for BareEtcd {
    async fn commit(&self, slot: &mut WrittenKey, value: Bytes) -> Result<(), BenchError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        let mut client = Grpc::new(self.connections[turn].clone());
        client.ready().await?;
        let put = PutRequest {
            key: Bytes::copy_from_slice(slot.key.as_bytes()),
            value,
        };
        let codec = ProstCodec::<PutRequest, PutResponse>::default();
        client.unary(Request::new(put), PUT.parse()?, codec).await?;
        Ok(())
    }
}
