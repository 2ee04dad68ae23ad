//! Execution of activities.

use std::{collections::BTreeMap, fmt, process::Stdio, sync::Arc, time::Duration};

use tokio::{process::Command, time::timeout};

use crate::api::{Activity, ActivityKind};

/// A compiled-in function: returns its output, or why it failed.
pub type Function = Arc<dyn Fn(&[String]) -> Result<String, String> + Send + Sync>;

/// Executes activities.
#[derive(Clone)]
pub struct Executor {
    functions: BTreeMap<String, Function>,
    /// Whether shell activities are allowed.
    shell: bool,
    /// The timeout of a program.
    limit: Duration,
}

// --- Executor ---

impl Executor {
    /// Creates an executor with the function `echo` and without shell activities.
    pub fn new() -> Self {
        let echo: Function = Arc::new(|args: &[String]| Ok(args.join(" ")));
        Executor {
            functions: BTreeMap::from([("echo".to_owned(), echo)]),
            shell: false,
            limit: Duration::from_mins(1),
        }
    }

    /// Adds a function.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        function: impl Fn(&[String]) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), Arc::new(function));
        self
    }

    /// Allows or forbids shell activities. If they are allowed, everyone who can create workflows can run any program with the
    /// privileges of the controller.
    #[must_use]
    pub fn allow_shell(mut self, allow: bool) -> Self {
        self.shell = allow;
        self
    }

    /// Executes an activity. Returns its output, or why it failed.
    pub async fn run(&self, activity: &Activity) -> Result<String, String> {
        match activity.kind {
            ActivityKind::Basic => Ok(String::new()),
            ActivityKind::Function => match self.functions.get(&activity.function) {
                Some(function) => function(&activity.args),
                None => Err(format!("unknown function {:?}", activity.function)),
            },
            ActivityKind::Shell if !self.shell => {
                Err("shell activities are not allowed: set workflow.allow-shell".to_owned())
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
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{}: {}", output.status, text(&output.stderr)))
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
    async fn shell_activities_run_only_if_allowed() {
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
        let error = allowed.run(&fails).await.unwrap_err();
        assert!(error.contains('3') && error.ends_with("why"), "{error}");
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
                .run(&activity(ActivityKind::Function, "missing", &[]))
                .await
                .is_err()
        );
    }
}
