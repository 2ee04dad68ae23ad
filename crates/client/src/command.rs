//! The commands, and who carries them out.

use clap::Subcommand;

use crate::{commands, connection::ConnectFlags, failed::Failed, session::Surroundings};

/// Work with a cluster, in kubectl's words.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    Get(commands::get::GetFlags),
    Describe(commands::describe::DescribeFlags),
    Apply(commands::apply::ApplyFlags),
    Delete(commands::delete::DeleteFlags),
    Edit(commands::edit::EditFlags),
    Logs(commands::logs::LogsFlags),
    Exec(commands::exec::ExecFlags),
    Events(commands::events::EventsFlags),
    Top(commands::top::TopFlags),
    Scale(commands::scale::ScaleFlags),
    Rollout(commands::rollout::RolloutFlags),
    Wait(commands::wait::WaitFlags),
    Explain(commands::explain::ExplainFlags),
    ApiResources(commands::api_resources::ApiResourcesFlags),
    Completion(commands::completion::CompletionFlags),
    #[command(name = "__complete", hide = true)]
    Words(commands::completion::WordsFlags),
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
            Self::Completion(flags) => flags.run(),
            Self::Words(flags) => flags.run(surroundings).await,
            Self::Kubeconfig(flags) => flags.run(surroundings),
        }
    }
}
