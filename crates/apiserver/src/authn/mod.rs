//! Who is asking: an authenticator a file.

mod token_file;

pub use self::token_file::TokenFile;
