//! Containers that are of no pod.

use std::collections::BTreeSet;

use super::{
    super::{
        service::Service,
        wire::{HostConfig, Mount, NewContainer, PortBinding, RestartPolicy},
    },
    Planner,
};

impl Planner {
    /// The container of a service.
    pub(in crate::runtime::engine) fn service(&self, service: &Service) -> NewContainer {
        let mut host_config = HostConfig {
            log_config: self.log_config(),
            // A database that dies comes again without k3: others may use it too.
            restart_policy: Some(RestartPolicy { name: "on-failure" }),
            mounts: vec![Mount {
                kind: "volume",
                source: service.volume.name.clone(),
                target: service.volume.path.clone(),
                ..Mount::default()
            }],
            ..HostConfig::default()
        };
        let mut exposed_ports = BTreeSet::new();
        for port in &service.ports {
            let name = format!("{}/tcp", port.container);
            exposed_ports.insert(name.clone());
            host_config
                .port_bindings
                .entry(name)
                .or_default()
                .push(PortBinding {
                    host_ip: port.address.to_string(),
                    host_port: port.machine.to_string(),
                });
        }
        let env = service.env.iter().map(|(name, value)| format!("{name}={value}"));
        NewContainer {
            image: service.image.clone(),
            entrypoint: service.entrypoint.clone(),
            cmd: service.args.clone(),
            env: env.collect(),
            labels: service.labels.clone(),
            exposed_ports,
            host_config,
            ..NewContainer::default()
        }
    }
}
