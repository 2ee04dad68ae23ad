//! One request, from stage to stage.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use k3_api::{strategy::User, time::Time};

use super::{
    event::{Event, Facts, Outcome, Sent},
    log::Auditor,
    policy::{Level, Stage, Verdict},
};
use crate::registry::Notes;

/// An answer that comes in pieces is written down up to this size. A longer one is left out.
const LONGEST: usize = 16 * 1024 * 1024;

/// A request, as far as it is known when it is here.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    /// The request's own name.
    pub id: &'a str,
    /// When it came.
    pub received: Time,
    /// Who asks; `None` if that is not known.
    pub user: Option<&'a User>,
    /// The verb, as roles have it; of what is no resource, the method in small letters.
    pub verb: &'a str,
    /// The path.
    pub path: &'a str,
    /// Path and query, as they were sent.
    pub uri: &'a str,
    /// The program that asks, as it says.
    pub agent: &'a str,
    /// Where it comes from: what proxies say, then the other end of the connection.
    pub sources: Vec<IpAddr>,
    /// Which resource it is about, if any.
    pub object: Option<ObjectRef>,
}

/// Which resource a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectRef {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// A request that is written down.
#[derive(Debug)]
pub(crate) struct Record {
    auditor: Arc<Auditor>,
    facts: Arc<Facts>,
    verdict: Verdict,
    acts_as: Option<Arc<(User, String)>>,
    request: Option<Sent>,
    response: Option<Sent>,
    /// An answer in pieces, until it is whole or too long.
    pieces: Option<BytesMut>,
    outcome: Outcome,
    notes: Option<Notes>,
}

// --- Record ---

impl Record {
    pub(super) fn new(auditor: Arc<Auditor>, facts: Facts, verdict: Verdict) -> Self {
        Record {
            auditor,
            facts: Arc::new(facts),
            verdict,
            acts_as: None,
            request: None,
            response: None,
            pieces: None,
            outcome: Outcome::default(),
            notes: None,
        }
    }

    /// Notes that are told with it.
    pub(crate) fn note(&mut self, notes: &Notes) {
        self.notes = Some(notes.clone());
    }

    /// Somebody else it is done as, and the verb that allows it, if it is one of its own.
    pub(crate) fn acts_as(&mut self, user: &User, constraint: &str) {
        self.acts_as = Some(Arc::new((user.clone(), constraint.to_owned())));
    }

    /// What was sent with the request. Also where it is not to be shown it tells which object is made.
    pub(crate) fn sent(&mut self, body: &Bytes, media: &str) {
        let tells_name = matches!(&*self.facts.verb, "create" | "update") && self.facts.object.is_some();
        if !body.is_empty() && (self.verdict.level >= Level::Request || tells_name) {
            self.request = Some(Sent::new(body.clone(), media));
        }
    }

    /// The code of the answer, and all of it if it is whole. Where the answer is not to be shown it tells what went wrong.
    pub(crate) fn answered(&mut self, code: u16, body: Option<&Bytes>, media: &str) {
        self.outcome.code = code;
        let may_be_status = code >= 400 || self.facts.verb.starts_with("delete");
        if let Some(body) = body
            && (self.verdict.level >= Level::RequestResponse || may_be_status)
        {
            self.response = Some(Sent::new(body.clone(), media));
        }
        if body.is_none() && self.verdict.level >= Level::RequestResponse && &*self.facts.verb != "watch" {
            self.pieces = Some(BytesMut::new());
            self.response = Some(Sent::new(Bytes::new(), media));
        }
    }

    /// A piece of the answer.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        if let Some(pieces) = &mut self.pieces {
            pieces.extend_from_slice(piece);
            if pieces.len() > LONGEST {
                self.pieces = None;
                self.response = None;
            }
        }
    }

    /// The answer has begun and will go on.
    pub(crate) fn started(&mut self) {
        self.tell(Stage::ResponseStarted);
    }

    /// The answer is sent; or nobody is there any more to take it.
    pub(crate) fn complete(mut self) {
        if let (Some(pieces), Some(response)) = (self.pieces.take(), &mut self.response) {
            response.bytes = pieces.freeze();
        }
        if self.outcome.code == 0 {
            self.outcome = Outcome {
                code: 200,
                status: "Success",
                message: "Connection closed early".to_owned(),
                ..Outcome::default()
            };
        }
        self.tell(Stage::ResponseComplete);
    }

    /// The server failed at it.
    pub(crate) fn panicked(mut self, why: &str) {
        self.response = None;
        self.outcome = Outcome {
            code: 500,
            status: "Failure",
            reason: "InternalError",
            message: format!("APIServer panic'd: {why}"),
        };
        self.tell(Stage::Panic);
    }

    /// It went no further than the door.
    pub(super) fn refused(mut self, code: u16, message: String) {
        self.outcome = Outcome {
            code,
            message,
            ..Outcome::default()
        };
        self.tell(Stage::ResponseStarted);
    }

    pub(super) fn tell(&mut self, stage: Stage) {
        if self.verdict.omit.has(stage) {
            return;
        }
        let is_last = matches!(stage, Stage::ResponseComplete | Stage::Panic);
        self.auditor.write(Event {
            facts: Arc::clone(&self.facts),
            level: self.verdict.level,
            omit_managed_fields: self.verdict.omit_managed_fields,
            stage,
            at: if stage == Stage::RequestReceived {
                self.facts.received
            } else {
                self.auditor.now()
            },
            acts_as: self.acts_as.clone(),
            outcome: (stage != Stage::RequestReceived).then(|| self.outcome.clone()),
            request: self.request.clone(),
            response: if is_last { self.response.take() } else { None },
            annotations: self.notes.as_ref().map_or_else(BTreeMap::new, Notes::all),
        });
    }
}
