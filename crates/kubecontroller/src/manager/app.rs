//! A complete controller program.

use std::{ffi::OsString, io::Write as _, process::ExitCode, sync::Arc};

use kube::Client;
use tokio::runtime::Runtime;
use tracing::{debug, error};

use super::{
    BoxError, Config, ControllerSetting, Manager, ManagerContext, ManagerError, Registration, Runnable,
    Setup, Stop, client,
    config::{self, CommandLine, CommandLineError},
    controller_manager::check_names,
    log, process,
    setup::ErasedSetup,
    signals,
};

/// A program that runs one or more managers, with flags, a configuration file, a log, signal handling and an exit code.
///
/// ```no_run
/// use kubecontroller::{App, manager::{BoxError, Manager, Setup}};
///
/// struct Mirror;
///
/// impl Setup for Mirror {
///     fn name(&self) -> &str { "mirror" }
///     fn resource(&self) -> &str { "configmaps" }
///     async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
///         // Create informers and a controller, and add it to the manager.
///         Ok(())
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     App::new("mirror").with(Mirror).main()
/// }
/// ```
///
/// The exit code is 0 after SIGINT, SIGTERM or SIGQUIT, 2 after a usage or configuration error, and 1 after any other
/// failure. A second signal ends the process immediately.
pub struct App {
    name: &'static str,
    about: String,
    settings: Vec<ControllerSetting>,
    /// The first manager is created by `new`.
    managers: Vec<(String, Vec<ManagerCallback>)>,
    runnables: Vec<Arc<dyn Runnable>>,
    uses_linked: bool,
}

/// Configures a manager once the client exists.
type ManagerCallback = Box<dyn FnOnce(&mut Manager) -> Result<(), BoxError> + Send>;

// --- App ---

impl App {
    /// Creates a program with one empty manager.
    pub fn new(name: &'static str) -> Self {
        App {
            name,
            about: format!("The controllers of {name}"),
            settings: Vec::new(),
            managers: vec![(name.to_owned(), Vec::new())],
            runnables: Vec::new(),
            uses_linked: false,
        }
    }

    /// Sets the description in the help text.
    #[must_use]
    pub fn about(mut self, about: &str) -> Self {
        about.clone_into(&mut self.about);
        self
    }

    /// Adds a setting of the program: a key in the configuration file, with dots for levels, and a flag of the same name.
    /// Read its value with [`Config::controller_setting`].
    #[must_use]
    pub fn setting(mut self, key: &'static str, help: &'static str, default: &'static str) -> Self {
        self.settings.push(ControllerSetting { key, help, default });
        self
    }

    /// Adds a reconciler.
    #[must_use]
    pub fn with(self, setup: impl Setup) -> Self {
        self.register(|manager| {
            manager.with(setup);
            Ok(())
        })
    }

    /// Adds all reconcilers [linked](crate::register) into the program, in the order of their names.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.uses_linked = true;
        for registration in Registration::all() {
            self.settings.extend(registration.own_settings());
        }
        self.register(|manager| {
            for registration in Registration::all() {
                let setup: Box<dyn ErasedSetup> = registration.make();
                if setup.name() != registration.name() || setup.resource() != registration.metadata().resource
                {
                    let registered = (registration.name(), registration.metadata().resource);
                    let actual = (setup.name(), setup.resource());
                    return Err(
                        format!("the setup of {registered:?} reports name and resource {actual:?}").into(),
                    );
                }
                manager.with_any(setup);
            }
            Ok(())
        })
    }

    /// Adds a callback that configures the manager. Callbacks run once, in order, when configuration and client are ready.
    /// The first error ends the program.
    #[must_use]
    pub fn register(
        mut self,
        callback: impl FnOnce(&mut Manager) -> Result<(), BoxError> + Send + 'static,
    ) -> Self {
        let (_, callbacks) = self.managers.last_mut().expect("`new` creates a manager");
        callbacks.push(Box::new(callback));
        self
    }

    /// Adds another manager; subsequent calls of [`App::with`] and [`App::register`] configure it. Managers run concurrently.
    /// If one fails, all stop and the program exits with 1.
    #[must_use]
    pub fn manager(mut self, name: &str) -> Self {
        self.managers.push((name.to_owned(), Vec::new()));
        self
    }

    /// Adds a runnable that is not supervised: if it fails or ends, the program stops.
    #[must_use]
    pub fn add_runnable(mut self, runnable: impl Runnable) -> Self {
        self.runnables.push(Arc::new(runnable));
        self
    }

    /// Runs the program with the command line of the process, and returns its exit code.
    pub fn main(self) -> ExitCode {
        self.main_with(std::env::args_os())
    }

    /// Runs the program with the given command line, whose first argument is the program name.
    pub fn main_with(self, args: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let args = args.into_iter().map(Into::into).collect();
        let env = |name: &str| std::env::var(name).ok();
        let config = match config::read(self.name, &self.about, &self.settings, args, env) {
            Ok(CommandLine::Run(config)) => *config,
            Ok(CommandLine::List) => return print(&list()),
            Ok(CommandLine::PrintCrds) => return print(&definitions()),
            Ok(CommandLine::PrintConfig(text)) => return print(&text),
            Err(CommandLineError::Line(asked)) => {
                let _ = asked.print();
                return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(2));
            }
            Err(error) => return print_error(&error.to_string(), 2),
        };
        if let Err(error) = log::install(&config.log) {
            return print_error(&format!("log.output-paths: {}: {error}", config.log.output), 2);
        }
        log::log_panics(&config.log);
        let runtime = match Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => return print_error(&error.to_string(), 1),
        };
        let done = runtime.block_on(async {
            let client = client::client(&config.cluster).await?;
            let stop = Stop::new();
            let _signals = signals::stop_by(&stop, config.grace);
            self.run(config, client, stop).await
        });
        // Threads that block on synchronous work must not delay the exit.
        runtime.shutdown_background();
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => print_error(&error.to_string(), error.exit_code()),
        }
    }

    /// Runs the managers with a given configuration and client until they are stopped or fail.
    pub async fn run(self, config: Config, client: Client, stop: Stop) -> Result<(), ManagerError> {
        if self.uses_linked {
            for registration in Registration::all() {
                let metadata = registration.metadata();
                debug!(
                    controller = registration.name(),
                    resource = metadata.resource,
                    description = metadata.description,
                    "controller is linked"
                );
            }
        }
        let context = ManagerContext::new(config, client);
        let mut managers = Vec::new();
        for (name, callbacks) in self.managers {
            let mut manager = Manager::with_context(&name, context.clone());
            for callback in callbacks {
                callback(&mut manager).map_err(|source| ManagerError::Setup {
                    name: name.clone(),
                    source,
                })?;
            }
            managers.push(manager);
        }
        check_names(&managers.iter().collect::<Vec<_>>())?;
        for manager in &mut managers {
            match stop.unless_stopped(manager.install()).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    error!(%error, "failed to set up controllers");
                    return Err(error);
                }
                None => return Ok(()),
            }
        }
        process::run(&context, managers, self.runnables, &stop).await
    }
}

/// One line per linked reconciler: name, resource, description.
fn list() -> String {
    let lines = Registration::all().into_iter().map(|registration| {
        let metadata = registration.metadata();
        let line = format!(
            "{}\t{}\t{}",
            registration.name(),
            metadata.resource,
            metadata.description
        );
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// The CRDs of all linked reconcilers as YAML documents.
fn definitions() -> String {
    let definitions = Registration::all()
        .into_iter()
        .flat_map(Registration::definitions);
    let texts = definitions.map(|definition| {
        let tree = serde_json::to_value(&definition).expect("a CRD can be serialized");
        format!("---\n{}", k3_yaml::to_string(&tree))
    });
    texts.collect()
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn print_error(what: &str, code: u8) -> ExitCode {
    for line in what.lines() {
        let _ = writeln!(std::io::stderr(), "error: {line}");
    }
    ExitCode::from(code)
}
