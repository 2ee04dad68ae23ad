//! HTTP requests to the API server with JSON bodies.

use std::{
    collections::hash_map::RandomState,
    error::Error,
    hash::{BuildHasher, Hasher},
    io,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::ClientError;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A client for the API server.
pub(crate) struct ApiClient {
    client: Client,
    /// Named in the error when the server cannot be reached.
    address: String,
}

/// A response body that is read while it arrives: logs and watches.
pub(crate) struct ResponseStream {
    body: Body,
    buffer: BytesMut,
}

// --- ApiClient ---

impl ApiClient {
    pub(crate) fn new(client: Client, address: String) -> Self {
        Self { client, address }
    }

    /// Sends a request. Responses with a 4xx or 5xx status become errors.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, ClientError> {
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let code = answer.status();
        if !code.is_client_error() && !code.is_server_error() {
            return Ok(answer);
        }
        let body = self.collect(answer).await?;
        let status = serde_json::from_slice::<Value>(&body)
            .ok()
            .filter(|status| status["kind"] == "Status");
        let status = status.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&body).trim().to_owned();
            let reason = code.canonical_reason().unwrap_or("").replace(' ', "");
            json!({"code": code.as_u16(), "reason": reason, "message": text})
        });
        Err(ClientError::server(status, None))
    }

    /// Returns the body of a GET response.
    pub(crate) async fn bytes(&self, path: &str, accept: &str) -> Result<Vec<u8>, ClientError> {
        let answer = self.send(request(Method::GET, path, accept, None)).await?;
        self.collect(answer).await
    }

    /// Returns the body of a GET response, deserialized.
    pub(crate) async fn parsed<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<T, ClientError> {
        let bytes = self.bytes(path, accept).await?;
        k3_decode::from_slice(&bytes).map_err(|error| {
            ClientError::new(format!("the server sent an invalid response to {path}: {error}"))
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.parsed(path, JSON).await
    }

    /// Like `get`, but returns `None` for 404 Not Found.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, ClientError> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Sends `body` and returns the status code and the object of the response.
    pub(crate) async fn write(
        &self,
        method: Method,
        path: &str,
        form: &str,
        body: &Value,
    ) -> Result<(u16, Value), ClientError> {
        let answer = self.send(request(method, path, JSON, Some((form, body)))).await?;
        let code = answer.status().as_u16();
        let bytes = self.collect(answer).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            ClientError::new(format!("the server sent an invalid response to {path}: {error}"))
        })?;
        Ok((code, value))
    }

    /// Patches an object as the field manager `k3`.
    pub(crate) async fn patch(&self, path: &str, form: &str, patch: &Value) -> Result<Value, ClientError> {
        let path = crate::api_resource::with_query(path, &[("fieldManager", Some(MANAGER.to_owned()))]);
        Ok(self.write(Method::PATCH, &path, form, patch).await?.1)
    }

    /// Starts a GET request whose response is read line by line or chunk by chunk.
    pub(crate) async fn stream(&self, path: &str, accept: &str) -> Result<ResponseStream, ClientError> {
        let answer = self.send(request(Method::GET, path, accept, None)).await?;
        Ok(ResponseStream {
            body: answer.into_body(),
            buffer: BytesMut::new(),
        })
    }

    /// Upgrades a connection to WebSocket. Returns the connection and the subprotocol that the server selected.
    pub(crate) async fn upgrade(
        &self,
        path: &str,
        protocols: &str,
    ) -> Result<(TokioIo<Upgraded>, String), ClientError> {
        let random = || RandomState::new().build_hasher().finish().to_ne_bytes();
        let key = STANDARD.encode([random(), random()].concat());
        let request = Request::get(path)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, key)
            .header(header::SEC_WEBSOCKET_PROTOCOL, protocols)
            .body(Vec::new())
            .expect("paths are escaped");
        let answer = self.send(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(ClientError::new(format!(
                "the server does not speak WebSocket: it answered {}",
                answer.status()
            )));
        }
        let protocol = answer.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
        let protocol = protocol.and_then(|protocol| protocol.to_str().ok());
        // A server that selects none speaks the oldest one.
        let protocol = protocol.unwrap_or("").to_owned();
        let upgraded = hyper::upgrade::on(answer).await;
        let upgraded = upgraded.map_err(|error| self.unreachable(&error))?;
        Ok((TokioIo::new(upgraded), protocol))
    }

    /// Reads the whole body. Frames are appended as they arrive, because a list may be large.
    async fn collect(&self, answer: Response<Body>) -> Result<Vec<u8>, ClientError> {
        let mut body = answer.into_body();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.unreachable(&error))?;
            all.extend_from_slice(frame.data_ref().map_or(&[], AsRef::as_ref));
        }
        Ok(all)
    }

    // upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go StandardErrorMessage
    /// Returns kubectl's message for a connection that failed.
    fn unreachable(&self, error: &(dyn Error + 'static)) -> ClientError {
        let mut last: &(dyn Error + 'static) = error;
        let mut is_refused = false;
        loop {
            let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            is_refused |= last.downcast_ref::<io::Error>().is_some_and(refused);
            match last.source() {
                Some(source) => last = source,
                None => break,
            }
        }
        let address = &self.address;
        if is_refused {
            let text = format!(
                "The connection to the server {address} was refused - did you specify the right host or port?"
            );
            return ClientError::with_code(text, 1);
        }
        ClientError::with_code(format!("Unable to connect to the server {address}: {last}"), 1)
    }
}

/// The field manager in `managedFields`.
pub(crate) const MANAGER: &str = "k3";

fn request(method: Method, path: &str, accept: &str, body: Option<(&str, &Value)>) -> Request<Vec<u8>> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, accept);
    if let Some((form, _)) = body {
        request = request.header(header::CONTENT_TYPE, form);
    }
    request
        .body(
            body.map(|(_, body)| body.to_string().into_bytes())
                .unwrap_or_default(),
        )
        .expect("paths are escaped")
}

// --- ResponseStream ---

impl ResponseStream {
    /// Returns the next line without its line end; the last line may have none.
    pub(crate) async fn line(&mut self) -> Result<Option<Bytes>, ClientError> {
        let line = self.whole_line().await?;
        Ok(line.map(|line| match line.strip_suffix(b"\n") {
            Some(text) => line.slice_ref(text),
            None => line,
        }))
    }

    /// Returns the next line with its line end; the last line may have none.
    pub(crate) async fn whole_line(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.split_to(end + 1).freeze()));
            }
            match self.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Ok(Some(self.buffer.split().freeze())),
            }
        }
    }

    /// Returns the next bytes as soon as they arrive.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame =
                frame.map_err(|error| ClientError::new(format!("the response was cut off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
