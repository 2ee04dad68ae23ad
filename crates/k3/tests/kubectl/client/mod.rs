//! The kubectl-like commands of `k3`, compared with kubectl.

mod errors;
mod kubeconfigs;
mod objects;
mod views;
mod workloads;

use std::process::Command;

use crate::{cluster::TestCluster, program::outcome};

impl TestCluster {
    /// Runs a command of `k3` that uses this server, which must succeed, and returns what it prints.
    fn k3(&self, line: &str) -> String {
        self.k3_with(&line.split(' ').collect::<Vec<_>>())
    }

    /// As [`Cluster::k3`], with arguments that may hold spaces.
    fn k3_with(&self, args: &[&str]) -> String {
        let (code, output, errors) = outcome(&mut self.k3_command(args));
        assert_eq!(code, Some(0), "k3 {args:?}: {output}{errors}\n{}", self.log());
        output
    }

    /// Runs a command of `k3`, which must fail, and returns its exit code and standard error.
    fn k3_error(&self, line: &str) -> (i32, String) {
        let (code, output, errors) = outcome(&mut self.k3_command(&line.split(' ').collect::<Vec<_>>()));
        assert_ne!(code, Some(0), "k3 {line}: {output}{errors}");
        (code.unwrap(), errors)
    }

    fn k3_command(&self, args: &[&str]) -> Command {
        let mut command = self.k3_command_for(args[0]);
        command.args(&args[1..]);
        command
    }

    /// Asserts that `k3` and kubectl print the same for the same arguments.
    fn same(&self, line: &str) {
        assert_eq!(self.k3(line), self.kubectl(line), "k3 and kubectl {line}");
    }
}
