//! What the flags ask for, read and checked.

use k3_node::{
    agent::default_node_name,
    runtime::detect::{Choice, UnknownRuntime, Wanted, socket_of},
};
use k3_simulator::Rules;

use super::{
    StartFlags,
    access::Plugin,
    flags::{NodeFlags, PartFlags},
};
use crate::{
    control::{self, Chosen},
    data_dir::default_data_dir,
    failure::Failure,
    server::{NodeSettings, Settings},
};

// --- StartFlags ---

impl StartFlags {
    /// What the flags ask for. Reads the files that they name.
    pub(super) fn settings(self) -> Result<Settings, Failure> {
        let data_dir = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => default_data_dir()?,
        };
        let storage = self.storage.config(&data_dir)?;
        let network = self.network;
        Ok(Settings {
            bind: network.bind,
            port: network.secure_port,
            plain_port: Some(network.insecure_port).filter(|port| *port != 0),
            advertise: network.advertise_address,
            names: network.tls_san,
            service_range: network.service_cluster_ip_range,
            authentication: self.access.authentication()?,
            issuer: self.access.issuer(),
            unrestricted_update: self.access.unrestricted_update,
            guard_owners: self
                .access
                .enable_admission_plugins
                .contains(&Plugin::OwnerReferencesPermissionEnforcement),
            limits: self.limits.limits(),
            audit: self.audit.config()?,
            chosen: self.parts.chosen()?,
            has_nodes: !self.node.no_node,
            node: self.node.settings(),
            kubeconfig_out: self.access.kubeconfig_out,
            ..Settings::new(data_dir, storage)
        })
    }
}

// --- PartFlags ---

impl PartFlags {
    /// What runs beside the server.
    fn chosen(&self) -> Result<Chosen, Failure> {
        let rules = match &self.simulation_rules {
            None => Rules::default(),
            Some(file) => Rules::load(file).map_err(|error| {
                let what = format!("--simulation-rules {}", file.display());
                Failure::usage(what, "docs/simulation.md tells what can be said there").because(error)
            })?,
        };
        Ok(control::listed(&self.controllers)?.with_simulated(self.simulated_nodes, rules))
    }
}

// --- NodeFlags ---

impl NodeFlags {
    /// What runs containers, as it is looked for.
    pub(super) fn wanted(&self) -> Result<Wanted, Failure> {
        let usage = |error: String| {
            Failure::usage(error, "see --runtime and --runtime-endpoint in `k3 start --help`")
        };
        let choice = match &self.runtime {
            None => Choice::Any,
            Some(name) => name
                .parse()
                .map_err(|error: UnknownRuntime| usage(error.to_string()))?,
        };
        let socket = self.runtime_endpoint.as_deref().map(socket_of);
        Ok(Wanted {
            choice,
            socket: socket.transpose().map_err(|error| usage(error.to_string()))?,
            network: None,
        })
    }

    /// The node that is asked for, if one is.
    fn settings(self) -> Option<NodeSettings> {
        (!self.no_node).then(|| NodeSettings {
            name: self.node_name.unwrap_or_else(default_node_name),
            runtime: self.runtime,
            runtime_endpoint: self.runtime_endpoint,
            port: self.node_port,
            static_pods: self.pod_manifest_path,
            start_limit: self.container_start_limit,
            stop_limit: self.container_stop_limit,
        })
    }
}
