//! Who is asking: an authenticator a file.
//!
//! Promise: a user that an authenticator gives has all groups that come with the way it was found:
//! `system:authenticated`, or for the anonymous one `system:unauthenticated`.

mod certificate;
mod identity;
mod records;
mod token_file;
mod x509;

pub use self::{
    certificate::{BadCertificate, Certificate},
    token_file::{TokenFile, TokenFileError, TokenFileProblem},
};
pub(crate) use self::{
    identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, anonymous, authenticated},
    x509::certificate_user,
};
