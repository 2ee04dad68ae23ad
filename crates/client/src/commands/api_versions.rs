//! `k3 api-versions`: prints the API groups and versions of the server.

use std::{collections::BTreeSet, io::Write};

use clap::Args;

use crate::{connection::ConnectFlags, error::ClientError, session::CommandSession};

/// Print the API versions that the server supports, as group/version
#[derive(Debug, Args)]
pub struct ApiVersionsFlags {
    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- ApiVersionsFlags ---

impl ApiVersionsFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let resources = session.discovery.lock().await.all(&session.api).await?;
        let versions: BTreeSet<String> = resources.iter().map(|resource| resource.api_version()).collect();
        session.show(|screen| {
            versions
                .iter()
                .try_for_each(|version| writeln!(screen, "{version}"))
        })
    }
}
