//! Create requests of service containers.

use std::collections::BTreeSet;

use super::{
    super::{
        requests::{CreateContainerRequest, HostConfig, Mount, PortBinding, RestartPolicy},
        service_containers::ServiceContainerSpec,
    },
    ContainerConfigGenerator,
};

impl ContainerConfigGenerator {
    /// Builds the create request of a service container.
    pub(in crate::runtime::docker) fn service_config(
        &self,
        service: &ServiceContainerSpec,
    ) -> CreateContainerRequest {
        let mut host_config = HostConfig {
            log_config: self.log_config(),
            // The engine restarts a crashed database even while k3 does not run: other programs may use it.
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
            let name = format!("{}/tcp", port.container_port);
            exposed_ports.insert(name.clone());
            host_config
                .port_bindings
                .entry(name)
                .or_default()
                .push(PortBinding {
                    host_ip: port.host_ip.to_string(),
                    host_port: port.host_port.to_string(),
                });
        }
        let env = service.env.iter().map(|(name, value)| format!("{name}={value}"));
        CreateContainerRequest {
            image: service.image.clone(),
            entrypoint: service.entrypoint.clone(),
            cmd: service.args.clone(),
            env: env.collect(),
            labels: service.labels.clone(),
            exposed_ports,
            host_config,
            ..CreateContainerRequest::default()
        }
    }
}
