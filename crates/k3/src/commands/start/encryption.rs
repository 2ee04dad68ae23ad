//! Encryption at rest.

use std::path::PathBuf;

use clap::Args;
use k3_encryption::EncryptionConfiguration;

use crate::{command_error::CommandError, server::EncryptionSettings};

#[derive(Debug, Args)]
#[command(next_help_heading = "Encryption at rest")]
pub(crate) struct EncryptionFlags {
    /// File with an `EncryptionConfiguration` of apiserver.config.k8s.io/v1: which resources are encrypted in the store, and with
    /// which keys. All servers of a store need the same. See docs/encryption.md
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,

    /// Reload the file of --encryption-provider-config when it changes
    #[arg(long)]
    encryption_provider_config_automatic_reload: bool,
}

// --- EncryptionFlags ---

impl EncryptionFlags {
    /// Reads and validates the file; `None` if there is none.
    pub(in crate::commands) fn settings(self) -> Result<Option<EncryptionSettings>, CommandError> {
        let is_reloaded = self.encryption_provider_config_automatic_reload;
        let file = match self.encryption_provider_config {
            Some(file) => file,
            None if is_reloaded => {
                return Err(CommandError::usage(
                    "--encryption-provider-config-automatic-reload needs --encryption-provider-config",
                    "name the file, or remove the flag",
                ));
            }
            None => return Ok(None),
        };
        let configuration = EncryptionConfiguration::load(&file).map_err(|error| {
            CommandError::usage(
                format!("cannot use --encryption-provider-config {}", file.display()),
                "docs/encryption.md has examples",
            )
            .caused_by(error)
        })?;
        Ok(Some(EncryptionSettings {
            configuration,
            file,
            is_reloaded,
        }))
    }
}
