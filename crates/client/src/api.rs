//! Requests made of paths and JSON, and what becomes of their answers.

use std::{
    collections::hash_map::RandomState,
    error::Error,
    hash::{BuildHasher, Hasher},
    io,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failed::Failed;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A server.
pub(crate) struct Api {
    client: Client,
    /// What it is called when it cannot be reached.
    address: String,
}

/// An answer that goes on.
pub(crate) struct Stream {
    body: Body,
    rest: BytesMut,
}

// --- Api ---

impl Api {
    pub(crate) fn new(client: Client, address: String) -> Self {
        Self { client, address }
    }

    /// Sends a request. Refusals are failures.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, Failed> {
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
            let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
            json!({"code": code.as_u16(), "reason": reason, "message": text})
        });
        Err(Failed::server(status, None))
    }

    /// The bytes of an answer.
    pub(crate) async fn bytes(&self, path: &str, accept: &str) -> Result<Vec<u8>, Failed> {
        let answer = self.send(request(Method::GET, path, accept, None)).await?;
        self.collect(answer).await
    }

    /// An answer of a known form.
    pub(crate) async fn parsed<T: DeserializeOwned>(&self, path: &str, accept: &str) -> Result<T, Failed> {
        let bytes = self.bytes(path, accept).await?;
        k3_decode::from_slice(&bytes)
            .map_err(|error| Failed::new(format!("the answer to {path} makes no sense: {error}")))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failed> {
        self.parsed(path, JSON).await
    }

    /// The same; nothing if there is no such thing.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failed> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Writes something: the code of the answer, and the object in it.
    pub(crate) async fn write(
        &self,
        method: Method,
        path: &str,
        form: &str,
        body: &Value,
    ) -> Result<(u16, Value), Failed> {
        let answer = self.send(request(method, path, JSON, Some((form, body)))).await?;
        let code = answer.status().as_u16();
        let bytes = self.collect(answer).await?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| Failed::new(format!("the answer to {path} makes no sense: {error}")))?;
        Ok((code, value))
    }

    /// Changes a part of an object.
    pub(crate) async fn patch(&self, path: &str, form: &str, patch: &Value) -> Result<Value, Failed> {
        let path = crate::resource::with_query(path, &[("fieldManager", Some(MANAGER.to_owned()))]);
        Ok(self.write(Method::PATCH, &path, form, patch).await?.1)
    }

    /// An answer that goes on.
    pub(crate) async fn stream(&self, path: &str, accept: &str) -> Result<Stream, Failed> {
        let answer = self.send(request(Method::GET, path, accept, None)).await?;
        Ok(Stream {
            body: answer.into_body(),
            rest: BytesMut::new(),
        })
    }

    /// A connection in place of an answer, for what goes both ways; and which of the protocols it speaks.
    pub(crate) async fn upgrade(
        &self,
        path: &str,
        protocols: &str,
    ) -> Result<(TokioIo<Upgraded>, String), Failed> {
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
            return Err(Failed::new(format!(
                "the server does not speak WebSocket: it answered {}",
                answer.status()
            )));
        }
        let protocol = answer.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
        let protocol = protocol.and_then(|protocol| protocol.to_str().ok());
        let protocol = protocol.unwrap_or_default().to_owned();
        let upgraded = hyper::upgrade::on(answer).await;
        let upgraded = upgraded.map_err(|error| self.unreachable(&error))?;
        Ok((TokioIo::new(upgraded), protocol))
    }

    /// All of an answer. Its parts are put together while they come: a list may be long.
    async fn collect(&self, answer: Response<Body>) -> Result<Vec<u8>, Failed> {
        let mut body = answer.into_body();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.unreachable(&error))?;
            all.extend_from_slice(frame.data_ref().map_or(&[], AsRef::as_ref));
        }
        Ok(all)
    }

    /// Why nothing came back, as kubectl says it.
    fn unreachable(&self, error: &(dyn Error + 'static)) -> Failed {
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
            return Failed::with_code(text, 1);
        }
        Failed::with_code(format!("Unable to connect to the server {address}: {last}"), 1)
    }
}

/// Who writes, in the fields that say who manages what.
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

// --- Stream ---

impl Stream {
    /// The next line, without its end; the last one may have none.
    pub(crate) async fn line(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end).freeze();
                self.rest.advance(1);
                return Ok(Some(line));
            }
            match self.piece().await? {
                Some(piece) => self.rest.extend_from_slice(&piece),
                None if self.rest.is_empty() => return Ok(None),
                None => return Ok(Some(self.rest.split().freeze())),
            }
        }
    }

    /// The next bytes, as they come.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failed> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Failed::new(format!("the answer was cut off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
