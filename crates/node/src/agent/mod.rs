//! The node itself: registration, conditions, lease, certificate, eviction, what is thrown away; and the agent that builds and
//! runs everything of this crate.
//!
//! ```text
//! cluster       which cluster it is of
//! config        how it is set up              machine   what the machine is and has
//! link          the runtime, once it is found node      the Node and its lease
//! serving       the certificate of its API    pressure  what is done when something runs short
//! images        what is thrown away of them   logs      rotated
//! tenants       the pods, as all these need them
//! keepers       all of these together         running   everything together
//! ```

mod cluster;
mod config;
mod images;
mod keepers;
mod link;
mod logs;
mod machine;
mod node;
mod pressure;
mod running;
mod search;
mod serving;
mod tenants;
mod tls;
mod view;

pub use self::{
    cluster::owner_of_directory,
    config::{
        Config, Eviction as EvictionLimits, ImageLimits, InvalidNodeName, LogLimits, Shutdown,
        default_node_name, parse_node_name,
    },
    pressure::{Least, Signal, Threshold},
    running::{Agent, AgentError},
    serving::Resolver,
};
