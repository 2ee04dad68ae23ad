//! Image pulls: pull policy, registry credentials, back-off after errors.
//!
//! ```text
//! manager        EnsureImageExists: pull policies, pull back-off, events
//! reference      parses image names
//! keyring        image pull secrets, and lookup of the credentials for a repository
//! pulled_images  persistent list of the images that this node pulled; only those may be garbage collected
//! ```
//!
//! Garbage collection is in `agent/image_gc_manager.rs`.

mod image_list_file;
pub mod keyring;
mod manager;
mod pulled_images;
pub mod reference;

pub(crate) use self::manager::with_timeout;
pub use self::{
    manager::{EnsureImageError, EnsureImageRequest, ImageManager, ImagePullLimits},
    pulled_images::PulledImages,
};
