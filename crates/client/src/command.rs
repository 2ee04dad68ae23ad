//! The commands, and who carries them out.

use clap::Subcommand;

use crate::{commands, connection::ConnectFlags, failed::Failed, session::Surroundings};

/// Work with a cluster, in kubectl's words.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Display one or many objects
    Get(commands::get::GetFlags),
    /// Show an object in detail, with what happened to it
    Describe(commands::describe::DescribeFlags),
    /// Make objects as files say
    Apply(commands::apply::ApplyFlags),
    /// Delete objects
    Delete(commands::delete::DeleteFlags),
    /// Edit an object in the editor that `$KUBE_EDITOR` or `$EDITOR` names
    Edit(commands::edit::EditFlags),
    /// Print what containers print
    Logs(commands::logs::LogsFlags),
    /// Run a command in a container
    Exec(commands::exec::ExecFlags),
    /// Display what happened lately, oldest first
    Events(commands::events::EventsFlags),
    /// Display what nodes or pods use
    Top(commands::top::TopFlags),
    /// Set how many replicas run
    Scale(commands::scale::ScaleFlags),
    /// See, repeat, stop or take back changes of workloads
    Rollout(commands::rollout::RolloutFlags),
    /// Wait until objects are as they should be
    Wait(commands::wait::WaitFlags),
    /// Describe the fields of a kind
    Explain(commands::explain::ExplainFlags),
    /// Display the kinds of objects that the server has
    ApiResources(commands::api_resources::ApiResourcesFlags),
    /// Display the groups and versions that the server has
    ApiVersions(commands::api_versions::ApiVersionsFlags),
    /// Print a script that makes a shell complete commands, flags, kinds and names
    Completion(commands::completion::CompletionFlags),
    /// Print what may come next, for scripts of shells
    #[command(name = "__complete", hide = true)]
    Words(commands::completion::WordsFlags),
    /// Print, merge and switch kubeconfigs
    Kubeconfig(commands::kubeconfig::KubeconfigFlags),
}

// --- ClientCommand ---

impl ClientCommand {
    /// Does what is asked for, in a process that does nothing else.
    pub fn run(self, surroundings: &Surroundings) -> Result<(), Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failed::new(format!("cannot start: {error}")))?;
        let done = runtime.block_on(self.dispatch(surroundings));
        // Somebody may still be waited for who types nothing.
        runtime.shutdown_background();
        done
    }

    async fn dispatch(self, surroundings: &Surroundings) -> Result<(), Failed> {
        let connect = async |flags: &ConnectFlags| flags.connect(surroundings).await;
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
            Self::Words(flags) => flags.run(surroundings).await,
            Self::Kubeconfig(flags) => flags.run(surroundings),
        }
    }
}
