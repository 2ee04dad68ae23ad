//! How activities are done.

use std::{collections::BTreeMap, fmt, process::Stdio, sync::Arc, time::Duration};

use tokio::{process::Command, time::timeout};

use crate::api::{Activity, ActivityKind};

/// A function that is compiled in: from its arguments to what it says, or why it failed.
pub type Function = Arc<dyn Fn(&[String]) -> Result<String, String> + Send + Sync>;

/// Does activities.
#[derive(Clone)]
pub struct Executor {
    functions: BTreeMap<String, Function>,
    /// Whether programs of this machine may be run.
    shell: bool,
    /// How long a program may take.
    limit: Duration,
}

// --- Executor ---

impl Executor {
    /// One that knows the function `echo`, and runs no programs.
    pub fn new() -> Self {
        let echo: Function = Arc::new(|args: &[String]| Ok(args.join(" ")));
        Executor {
            functions: BTreeMap::from([("echo".to_owned(), echo)]),
            shell: false,
            limit: Duration::from_mins(1),
        }
    }

    /// With a function of that name.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        function: impl Fn(&[String]) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), Arc::new(function));
        self
    }

    /// Whether programs of this machine may be run. Whoever may create workflows may then run anything that the controller
    /// may.
    #[must_use]
    pub fn allow_shell(mut self, allow: bool) -> Self {
        self.shell = allow;
        self
    }

    /// Does an activity. Says what it said, or why it failed.
    pub async fn run(&self, activity: &Activity) -> Result<String, String> {
        match activity.kind {
            ActivityKind::Basic => Ok(String::new()),
            ActivityKind::Function => match self.functions.get(&activity.function) {
                Some(function) => function(&activity.args),
                None => Err(format!("there is no function {:?}", activity.function)),
            },
            ActivityKind::Shell if !self.shell => {
                Err("programs are not allowed: see `allow-shell` of the settings".to_owned())
            }
            ActivityKind::Shell => self.shell(activity).await,
        }
    }

    async fn shell(&self, activity: &Activity) -> Result<String, String> {
        let mut command = Command::new(&activity.path);
        command
            .args(&activity.args)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let ended = timeout(self.limit, command.output()).await;
        let output = ended
            .map_err(|_| format!("took longer than {:?}", self.limit))?
            .map_err(|error| format!("{}: {error}", activity.path))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(said(&output.stdout))
        } else {
            Err(format!("{}: {}", output.status, said(&output.stderr)))
        }
    }
}

impl Default for Executor {
    fn default() -> Self {
        Executor::new()
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("functions", &self.functions.keys())
            .field("shell", &self.shell)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Executor;
    use crate::api::{Activity, ActivityKind};

    fn activity(kind: ActivityKind, what: &str, args: &[&str]) -> Activity {
        Activity {
            name: "a".to_owned(),
            kind,
            path: what.to_owned(),
            function: what.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        }
    }

    #[tokio::test]
    async fn programs_run_only_where_they_are_allowed() {
        let echo = activity(ActivityKind::Shell, "echo", &["hello"]);
        assert!(
            Executor::new()
                .run(&echo)
                .await
                .unwrap_err()
                .contains("not allowed")
        );
        let allowed = Executor::new().allow_shell(true);
        assert_eq!(allowed.run(&echo).await.unwrap(), "hello");
        let fails = activity(ActivityKind::Shell, "sh", &["-c", "echo why >&2; exit 3"]);
        let said = allowed.run(&fails).await.unwrap_err();
        assert!(said.contains('3') && said.ends_with("why"), "{said}");
    }

    #[tokio::test]
    async fn functions_are_found_by_name() {
        let executor = Executor::new().function("fail", |_| Err("no".to_owned()));
        assert_eq!(
            executor
                .run(&activity(ActivityKind::Function, "echo", &["a", "b"]))
                .await
                .unwrap(),
            "a b"
        );
        assert_eq!(
            executor
                .run(&activity(ActivityKind::Function, "fail", &[]))
                .await
                .unwrap_err(),
            "no"
        );
        assert!(
            executor
                .run(&activity(ActivityKind::Function, "gone", &[]))
                .await
                .is_err()
        );
    }
}
