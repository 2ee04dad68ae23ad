//! The objects a cluster is born with.

use crate::{Config, StartError, registry::Registry};

/// Makes what is missing.
pub(crate) async fn run(_registry: &Registry, _config: &Config) -> Result<(), StartError> {
    Ok(())
}
