//! Settings from flags.

use k3_node::{
    agent::{default_node_name, parse_node_name},
    runtime::detect::{RuntimeSelection, UnknownRuntimeError, parse_endpoint},
};
use k3_simulator::Rules;

use super::{ApiFlags, NodeFlags, RuntimeFlags, StartFlags, flags::ComponentFlags};
use crate::{
    command_error::CommandError,
    controller_manager::{self, ComponentSelection},
    data_dir::data_dir,
    databases,
    server::{ControlPlaneSettings, NodeSettings},
};

// --- StartFlags ---

impl StartFlags {
    /// Settings of databases on demand. A generated password is stored in the data directory.
    pub(in crate::commands) fn databases(&self) -> Result<databases::DatabaseSettings, CommandError> {
        let directory = data_dir(self.api.data_dir.as_deref())?;
        Ok(self.databases.settings(directory, self.node.runtime.wanted()?))
    }

    /// Settings of the flags. Reads the files that they name.
    pub(in crate::commands) fn settings(self) -> Result<ControlPlaneSettings, CommandError> {
        Ok(ControlPlaneSettings {
            components: self.parts.components()?,
            has_nodes: !self.no_node,
            node: if self.no_node {
                None
            } else {
                Some(self.node.settings()?)
            },
            ..self.api.settings()?
        })
    }
}

// --- ApiFlags ---

impl ApiFlags {
    /// Settings of an API server. Reads the files that the flags name.
    pub(in crate::commands) fn settings(self) -> Result<ControlPlaneSettings, CommandError> {
        let data_dir = data_dir(self.data_dir.as_deref())?;
        let storage = self.storage.config(&data_dir)?;
        let storage_wait = self.storage.wait();
        let network = self.network;
        Ok(ControlPlaneSettings {
            storage_wait,
            bind: network.bind,
            port: network.secure_port,
            plain_port: Some(network.insecure_port).filter(|port| *port != 0),
            advertise: network.advertise_address,
            names: network.tls_san,
            service_range: network.service_cluster_ip_range,
            authentication: self.access.authentication()?,
            issuer: self.access.issuer(),
            signing_key: self.access.signing_key()?,
            unrestricted_update: self.access.unrestricted_update,
            guard_owners: self.access.guards_owners(),
            limits: self.limits.limits(),
            audit: self.audit.config()?,
            encryption: self.encryption.settings()?,
            kubeconfig_out: self.access.kubeconfig_out,
            ..ControlPlaneSettings::new(data_dir, storage)
        })
    }
}

// --- ComponentFlags ---

impl ComponentFlags {
    fn components(&self) -> Result<ComponentSelection, CommandError> {
        let rules = match &self.simulation_rules {
            None => Rules::default(),
            Some(file) => Rules::load(file).map_err(|error| {
                let what = format!("--simulation-rules {}", file.display());
                CommandError::usage(what, "see docs/simulation.md").caused_by(error)
            })?,
        };
        Ok(controller_manager::parse_controllers(&self.controllers)?
            .with_simulated(self.simulated_nodes, rules))
    }
}

// --- RuntimeFlags ---

impl RuntimeFlags {
    pub(in crate::commands) fn wanted(&self) -> Result<RuntimeSelection, CommandError> {
        let usage =
            |what: String| CommandError::usage(what, "see --runtime and --runtime-endpoint in the help");
        let choice = self.runtime.as_deref().unwrap_or_default().parse();
        let socket = self.runtime_endpoint.as_deref().map(parse_endpoint).transpose();
        Ok(RuntimeSelection {
            choice: choice.map_err(|error: UnknownRuntimeError| usage(error.to_string()))?,
            socket: socket.map_err(|error| usage(error.to_string()))?,
        })
    }
}

// --- NodeFlags ---

impl NodeFlags {
    pub(in crate::commands) fn settings(self) -> Result<NodeSettings, CommandError> {
        let name = match self.node_name {
            Some(name) => name,
            None => parse_node_name(&default_node_name()).map_err(|error| {
                CommandError::usage(error.to_string(), "choose a name with --node-name")
                    .caused_by("it is the host name")
            })?,
        };
        Ok(NodeSettings {
            name,
            runtime: self.runtime.runtime,
            runtime_endpoint: self.runtime.runtime_endpoint,
            port: self.node_port,
            static_pods: self.pod_manifest_path,
            start_limit: self.container_start_limit,
            stop_limit: self.container_stop_limit,
            seccomp_default: self.seccomp_default,
            eviction: self.eviction_hard,
            images_high: self.image_gc_high_threshold,
        })
    }
}
