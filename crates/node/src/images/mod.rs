//! Images: when they are pulled, with whose secrets, and when again.
//!
//! ```text
//! reference  names of images, as users write them
//! keyring    secrets of registries, and which one is for which image
//! puller     policies, waits after failures, what users are told
//! pulled     which images were pulled, and so may be thrown away
//! ```

pub mod keyring;
mod pulled;
mod puller;
pub mod reference;

pub(crate) use self::puller::limited;
pub use self::{
    pulled::PulledImages,
    puller::{Images, Limits, Request, Trouble},
};
