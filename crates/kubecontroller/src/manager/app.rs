//! A whole program.

use std::{ffi::OsString, io::Write as _, process::ExitCode, sync::Arc};

use kube::Client;
use tokio::runtime::Runtime;
use tracing::{error, info};

use super::{
    BoxError, Config, ControllerSetting, Manager, ManagerContext, ManagerError, Registration, Runnable,
    Setup, Stop, cluster,
    config::{self, CommandLine, CommandLineError},
    log,
    manager::check_names,
    process,
    setup::ErasedSetup,
    signals,
};

/// A program of one or more managers: flags and a file of settings, a log, signals, an exit code.
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
///         // Make informers and a controller, and add it.
///         Ok(())
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     App::new("mirror").with(Mirror).main()
/// }
/// ```
///
/// It exits with 0 after a stop by INT, TERM or QUIT, with 2 if it was told something wrong, and with 1 if it failed. A
/// second signal ends it at once.
pub struct App {
    name: &'static str,
    about: String,
    settings: Vec<ControllerSetting>,
    /// The first is there from the beginning.
    managers: Vec<(String, Vec<Callback>)>,
    parts: Vec<Arc<dyn Runnable>>,
    uses_linked: bool,
}

/// Fills a manager, once the client is there.
type Callback = Box<dyn FnOnce(&mut Manager) -> Result<(), BoxError> + Send>;

// --- App ---

impl App {
    /// A program of that name, with one manager that has nothing to do yet.
    pub fn new(name: &'static str) -> Self {
        App {
            name,
            about: format!("The controllers of {name}"),
            settings: Vec::new(),
            managers: vec![(name.to_owned(), Vec::new())],
            parts: Vec::new(),
            uses_linked: false,
        }
    }

    /// With a sentence for the help.
    #[must_use]
    pub fn about(mut self, about: &str) -> Self {
        about.clone_into(&mut self.about);
        self
    }

    /// With a setting of its own: a key in the file, with dots for levels, and a flag of the same name. Its value is read
    /// with [`Config::own`].
    #[must_use]
    pub fn setting(mut self, key: &'static str, help: &'static str, default: &'static str) -> Self {
        self.settings.push(ControllerSetting { key, help, default });
        self
    }

    /// With a reconciler.
    #[must_use]
    pub fn with(self, setup: impl Setup) -> Self {
        self.register(|manager| {
            manager.with(setup);
            Ok(())
        })
    }

    /// With all reconcilers that were [linked](crate::register) into the program, by name.
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
                    let known = (registration.name(), registration.metadata().resource);
                    let named = (setup.name(), setup.resource());
                    return Err(format!("registered as {known:?}, but calls itself {named:?}").into());
                }
                manager.with_any(setup);
            }
            Ok(())
        })
    }

    /// With a callback that fills the manager. They run once, in order, when settings and client are there; the first that
    /// fails ends the start.
    #[must_use]
    pub fn register(
        mut self,
        callback: impl FnOnce(&mut Manager) -> Result<(), BoxError> + Send + 'static,
    ) -> Self {
        let (_, callbacks) = self.managers.last_mut().expect("there is one from the beginning");
        callbacks.push(Box::new(callback));
        self
    }

    /// With another manager, which the following calls of [`App::with`] and [`App::register`] fill. Managers run beside each
    /// other; if one fails all stop, and the program exits with 1.
    #[must_use]
    pub fn manager(mut self, name: &str) -> Self {
        self.managers.push((name.to_owned(), Vec::new()));
        self
    }

    /// With something that runs beside the managers and is not supervised: if it fails or ends, all stop.
    #[must_use]
    pub fn add_runnable(mut self, part: impl Runnable) -> Self {
        self.parts.push(Arc::new(part));
        self
    }

    /// The whole program: reads the command line, runs, and says what to exit with.
    pub fn main(self) -> ExitCode {
        self.main_with(std::env::args_os())
    }

    /// The same for a command line whose first word is the program's name.
    pub fn main_with(self, args: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let args = args.into_iter().map(Into::into).collect();
        let env = |name: &str| std::env::var(name).ok();
        let config = match config::read(self.name, &self.about, &self.settings, args, env) {
            Ok(CommandLine::Run(config)) => *config,
            Ok(CommandLine::List) => return print(&list()),
            Ok(CommandLine::PrintCrds) => return print(&definitions()),
            Err(CommandLineError::Line(asked)) => {
                let _ = asked.print();
                return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(2));
            }
            Err(error) => return complain(&error.to_string(), 2),
        };
        if let Err(error) = log::install(&config.log) {
            return complain(&format!("log.output-paths: {}: {error}", config.log.output), 2);
        }
        log::hear_panics(config.log.stacktrace);
        let runtime = match Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => return complain(&error.to_string(), 1),
        };
        let done = runtime.block_on(async {
            let client = cluster::client(&config.cluster).await?;
            let stop = Stop::new();
            let _signals = signals::stop_by(&stop, config.grace);
            self.run(config, client, stop).await
        });
        // What blocks a thread is not waited for.
        runtime.shutdown_background();
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error.to_string(), error.exit_code()),
        }
    }

    /// Runs with settings and a client that are there, until it is stopped or fails.
    pub async fn run(self, config: Config, client: Client, stop: Stop) -> Result<(), ManagerError> {
        if self.uses_linked {
            for registration in Registration::all() {
                let metadata = registration.metadata();
                let (resource, about) = (metadata.resource, metadata.description);
                info!(reconciler = registration.name(), resource, about, "linked");
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
                    error!(%error, "cannot start");
                    return Err(error);
                }
                None => return Ok(()),
            }
        }
        process::run(&context, managers, self.parts, &stop).await
    }
}

/// The reconcilers that were linked into the program, one a line.
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

/// The definitions of all resources of the program, a document each.
fn definitions() -> String {
    let definitions = Registration::all()
        .into_iter()
        .flat_map(Registration::definitions);
    let texts = definitions.map(|definition| {
        let text = serde_saphyr::to_string(&definition).expect("a definition is a tree of names and values");
        format!("---\n{}\n", text.trim_end())
    });
    texts.collect()
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(what: &str, code: u8) -> ExitCode {
    for line in what.lines() {
        let _ = writeln!(std::io::stderr(), "error: {line}");
    }
    ExitCode::from(code)
}
