//! The kubectl-like commands and their dispatch.

use clap::Subcommand;

use crate::{commands, connection::ConnectFlags, error::ClientError, session::ClientDefaults};

/// Work with a cluster. The commands and flags are kubectl's.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Display one or many resources
    Get(commands::get::GetFlags),
    /// Show details of a resource and its events
    Describe(commands::describe::DescribeFlags),
    /// Apply a configuration to resources by file name or stdin
    Apply(commands::apply::ApplyFlags),
    /// Delete resources
    Delete(commands::delete::DeleteFlags),
    /// Edit a resource with the editor in `$KUBE_EDITOR` or `$EDITOR`
    Edit(commands::edit::EditFlags),
    /// Print the logs of containers
    Logs(commands::logs::LogsFlags),
    /// Run a command in a container
    Exec(commands::exec::ExecFlags),
    /// List events, oldest first
    Events(commands::events::EventsFlags),
    /// Display resource (CPU/memory) usage of nodes or pods
    Top(commands::top::TopFlags),
    /// Set a new size for a deployment, replica set, replication controller or stateful set
    Scale(commands::scale::ScaleFlags),
    /// Manage the rollout of a deployment, daemon set or stateful set
    Rollout(commands::rollout::RolloutFlags),
    /// Wait for a condition on one or many resources
    Wait(commands::wait::WaitFlags),
    /// Get documentation for a resource
    Explain(commands::explain::ExplainFlags),
    /// Print the API resources that the server supports
    ApiResources(commands::api_resources::ApiResourcesFlags),
    /// Print the API versions that the server supports, as group/version
    ApiVersions(commands::api_versions::ApiVersionsFlags),
    /// Output shell completion code for the given shell
    Completion(commands::completion::CompletionFlags),
    /// Print completion candidates; shell completion scripts call it
    #[command(name = "__complete", hide = true)]
    Complete(commands::completion::CompleteFlags),
    /// View, merge and modify kubeconfig files
    Kubeconfig(commands::kubeconfig::KubeconfigFlags),
}

// --- ClientCommand ---

impl ClientCommand {
    /// Runs the command on a runtime of its own and blocks until it ends.
    pub fn run(self, defaults: &ClientDefaults) -> Result<(), ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ClientError::new(format!("cannot start: {error}")))?;
        let result = runtime.block_on(self.dispatch(defaults));
        // A blocking read of stdin may still be pending; do not wait for the user to type something.
        runtime.shutdown_background();
        result
    }

    async fn dispatch(self, defaults: &ClientDefaults) -> Result<(), ClientError> {
        let connect = async |flags: &ConnectFlags| flags.connect(defaults).await;
        match self {
            Self::Get(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Describe(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Apply(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Delete(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Edit(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Logs(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Exec(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Events(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Top(flags) => flags.run(&connect(flags.connection()).await?).await,
            Self::Scale(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Rollout(flags) => flags.run(&connect(flags.connection()).await?).await,
            Self::Wait(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Explain(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::ApiResources(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::ApiVersions(flags) => flags.run(&connect(&flags.connection).await?).await,
            Self::Completion(flags) => flags.run(),
            Self::Complete(flags) => flags.run(defaults).await,
            Self::Kubeconfig(flags) => flags.run(defaults),
        }
    }
}
