//! Where the project is, and how its cargo is called.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The checkout that this program was built from.
pub(crate) struct Workspace {
    root: PathBuf,
}

// --- Workspace ---

impl Workspace {
    pub(crate) fn new() -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self {
            root: own.parent().expect("xtask lies in the workspace").to_path_buf(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A call of cargo at the root; the arguments as one would type them, without quotes.
    pub(crate) fn cargo(&self, args: &str) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args.split_whitespace()).current_dir(&self.root);
        // `cargo run` describes this package in the environment. Build scripts that watch such variables
        // (ring's does) would run again at every change between `cargo xtask` and plain `cargo`.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }
}
