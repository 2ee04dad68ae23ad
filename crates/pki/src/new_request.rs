//! Requests that we make ourselves.

use der::{
    Encode,
    asn1::{Any, BitString, OctetString},
};
use x509_cert::ext::Extension;

use crate::{
    AlternativeName, IssueError, KeyPair, Subject,
    alternative_names::encode_names,
    certificate::SUBJECT_ALTERNATIVE_NAMES,
    encoding::{OrderedSet, Request, RequestAttribute, RequestInfo, decode},
    pem_block::to_pem,
    request::EXTENSION_REQUEST,
};

/// A request for a certificate of a key, in PEM.
pub fn new_request(
    subject: &Subject,
    names: &[AlternativeName],
    key: &KeyPair,
) -> Result<String, IssueError> {
    let public_key = key.public_key().map_err(IssueError::Authority)?;
    let mut attributes = Vec::new();
    if !names.is_empty() {
        let extension = Extension {
            extn_id: SUBJECT_ALTERNATIVE_NAMES,
            critical: false,
            extn_value: OctetString::new(encode_names(names)?)?,
        };
        attributes.push(RequestAttribute {
            oid: EXTENSION_REQUEST,
            values: OrderedSet(vec![Any::encode_from(&vec![extension])?]),
        });
    }
    let info = RequestInfo {
        version: 0,
        subject: subject.to_name()?,
        public_key: decode(public_key.info()).map_err(IssueError::Authority)?,
        attributes: OrderedSet(attributes),
    };
    let signature = key.sign(&info.to_der()?)?;
    let request = Request {
        info,
        algorithm: key.algorithm()?,
        signature: BitString::from_bytes(&signature)?,
    };
    Ok(to_pem("CERTIFICATE REQUEST", &request.to_der()?))
}
