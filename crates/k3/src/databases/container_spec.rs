//! The container of a database.

use k3_node::runtime::docker::{NamedVolume, ServiceContainerPort, ServiceContainerSpec};
use k3_storage::backend::StorageConfig;

use super::{DatabaseSettings, endpoint::LocalEndpoint};

/// Label with the type of database, on containers and volumes.
pub(super) const DATABASE_LABEL: &str = "k3.io/database";
/// Label with the instance name; empty for the default instance of the machine.
pub(crate) const INSTANCE_LABEL: &str = "k3.io/database-instance";

/// Returns the container for the store at this endpoint, or `None` for a store without a database.
pub(super) fn service(
    settings: &DatabaseSettings,
    storage: &dyn StorageConfig,
    endpoint: &LocalEndpoint,
) -> Option<ServiceContainerSpec> {
    let container = storage.database()?.container(endpoint.port);
    let backend = storage.backend();
    let database = backend.name();
    let image = settings.images.text(backend.database()?.image())?;
    let ending = |mark: char| match settings.instance.as_str() {
        "" => String::new(),
        instance => format!("{mark}{instance}"),
    };
    let port = |(host_port, container_port)| ServiceContainerPort {
        host_ip: endpoint.loopback,
        host_port,
        container_port,
    };
    Some(ServiceContainerSpec {
        name: format!("k8s_storage_{database}_{database}{}", ending('_')),
        image: image.to_owned(),
        entrypoint: container.entrypoint,
        args: container.args,
        env: container.env,
        ports: container.ports.into_iter().map(port).collect(),
        volume: NamedVolume {
            name: format!("k3-{database}-data{}", ending('-')),
            path: container.data_path.to_owned(),
        },
        labels: [(DATABASE_LABEL, database), (INSTANCE_LABEL, &settings.instance)]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, path::PathBuf};

    use k3_node::runtime::detect::RuntimeSelection;
    use k3_storage::{
        backend::{SettingValue, SettingValues},
        etcd::EtcdOptions,
        memory::MemoryOptions,
        mysql::MysqlOptions,
    };

    use super::{
        super::{Autostart, endpoint::local_endpoint},
        *,
    };

    fn service_of(config: &dyn StorageConfig, instance: &str) -> ServiceContainerSpec {
        let image = config.backend().database().unwrap().image();
        let mut images = SettingValues::default();
        images.set(image, SettingValue::Text("database:1".to_owned()));
        let settings = DatabaseSettings {
            autostart: Autostart::On,
            images,
            instance: instance.to_owned(),
            directory: PathBuf::new(),
            runtime: RuntimeSelection::default(),
        };
        let endpoint = local_endpoint(config.database().unwrap()).unwrap();
        assert!(service(&settings, &MemoryOptions, &endpoint).is_none());
        service(&settings, config, &endpoint).unwrap()
    }

    #[test]
    fn mysql_has_its_image_name_volume_and_port() {
        let options = MysqlOptions {
            port: 3307,
            ..MysqlOptions::default()
        };
        let mysql = service_of(&options, "");
        assert_eq!(mysql.image, "database:1");
        assert_eq!(mysql.name, "k8s_storage_mysql_mysql");
        assert_eq!(mysql.volume.name, "k3-mysql-data");
        assert_eq!(mysql.volume.path, "/var/lib/mysql");
        let port = mysql.ports[0];
        assert_eq!(port.host_ip, Ipv4Addr::LOCALHOST);
        assert_eq!((port.host_port, port.container_port), (3307, 3306));
    }

    #[test]
    fn instances_have_separate_names() {
        let etcd = service_of(&EtcdOptions::default(), "blue");
        assert_eq!(etcd.name, "k8s_storage_etcd_etcd_blue");
        assert_eq!(etcd.volume.name, "k3-etcd-data-blue");
        assert_eq!(etcd.labels[INSTANCE_LABEL], "blue");
    }
}
