//! Looking whether containers are well: exec, HTTP, TCP and gRPC.

mod results;

pub use self::results::{Outcome, ProbeKind, ProbeResults};
