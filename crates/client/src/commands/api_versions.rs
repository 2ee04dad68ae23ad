//! `k3 api-versions`: in which versions there are kinds.

use std::{collections::BTreeSet, io::Write};

use clap::Args;

use crate::{connection::ConnectFlags, failed::Failed, session::Session};

/// Display the groups and versions that the server has
#[derive(Debug, Args)]
pub struct ApiVersionsFlags {
    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- ApiVersionsFlags ---

impl ApiVersionsFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let resources = session.discovery.lock().await.all(&session.api).await?;
        let versions: BTreeSet<String> = resources.iter().map(|resource| resource.api_version()).collect();
        session.show(|screen| {
            versions
                .iter()
                .try_for_each(|version| writeln!(screen, "{version}"))
        })
    }
}
