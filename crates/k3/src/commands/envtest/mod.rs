//! The programs of controller-runtime's envtest, `kube-apiserver` and `etcd`: both are links to this program.
//!
//! ```text
//! program_name  selects the program by the name of the link
//! arguments     parses flags in upstream's syntax and ignores unsupported ones
//! etcd          holds the port and data directory of an etcd, and answers /health
//! storage       selects the store: that data directory, or a real etcd
//! keys          loads or generates certificates and keys
//! apiserver     runs the API server
//! assets        `k3 envtest-assets` creates the links
//! ```

mod apiserver;
mod arguments;
mod assets;
mod etcd;
mod keys;
mod program_name;
mod storage;

pub(super) use self::assets::{AssetsFlags, run};
pub(crate) use self::program_name::EnvtestProgram;
