//! What the test environments of controller-runtime start: `kube-apiserver` and `etcd`, both of them this program under
//! another name.
//!
//! ```text
//! part       which of them this process was called as
//! arguments  flags as such environments pass them, also those that mean nothing here
//! etcd       holds a port and a directory, and answers whether it is well
//! place      where the API server keeps what it is given: in that directory, or in a real etcd
//! keys       certificates and keys out of files
//! apiserver  the API server
//! assets     `k3 envtest-assets`: the directory that such environments look for programs in
//! ```

mod apiserver;
mod arguments;
mod assets;
mod etcd;
mod keys;
mod program_name;
mod storage;

pub(super) use self::assets::{AssetsFlags, run};
pub(crate) use self::program_name::Program;
