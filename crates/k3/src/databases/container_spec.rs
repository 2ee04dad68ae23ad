//! The container of a database.

use std::net::IpAddr;

use k3_node::runtime::docker::{NamedVolume, ServiceContainerPort, ServiceContainerSpec};
use k3_storage::{StorageConfig, mysql::MysqlOptions};

use super::DatabaseSettings;

/// Label with the type of database, on containers and volumes.
pub(super) const DATABASE_LABEL: &str = "k3.io/database";
/// Label with the instance name; empty for the default instance of the machine.
pub(crate) const INSTANCE_LABEL: &str = "k3.io/database-instance";

/// The path of etcd in its image, which has no entry point.
const ETCD: &str = "/usr/local/bin/etcd";
/// Default ports of etcd.
const ETCD_CLIENT: u16 = 2379;
const ETCD_PEER: u16 = 2380;
const MYSQL_PORT: u16 = 3306;

/// Returns the container for the store at this address, or `None` for a store without a database.
pub(super) fn service(
    settings: &DatabaseSettings,
    storage: &StorageConfig,
    address: IpAddr,
    port: u16,
) -> Option<ServiceContainerSpec> {
    match storage {
        StorageConfig::Memory | StorageConfig::File(_) => None,
        StorageConfig::Mysql(options) => Some(mysql(settings, options, address)),
        StorageConfig::Etcd(_) => Some(etcd(settings, address, port)),
    }
}

fn mysql(settings: &DatabaseSettings, options: &MysqlOptions, address: IpAddr) -> ServiceContainerSpec {
    let mut env = vec![
        ("MYSQL_DATABASE", &options.database),
        ("MYSQL_ROOT_PASSWORD", &options.password),
    ];
    if options.user != "root" {
        env.extend([
            ("MYSQL_USER", &options.user),
            ("MYSQL_PASSWORD", &options.password),
        ]);
    }
    ServiceContainerSpec {
        image: settings.mysql_image.clone(),
        env: env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect(),
        ports: vec![ServiceContainerPort {
            host_ip: address,
            host_port: options.port,
            container_port: MYSQL_PORT,
        }],
        ..named(settings, "mysql", "/var/lib/mysql")
    }
}

fn etcd(settings: &DatabaseSettings, address: IpAddr, client: u16) -> ServiceContainerSpec {
    let peer = peer_port(client);
    let args = [
        ("name", "k3".to_owned()),
        ("data-dir", "/etcd-data".to_owned()),
        ("listen-client-urls", format!("http://0.0.0.0:{client}")),
        ("advertise-client-urls", format!("http://127.0.0.1:{client}")),
        ("listen-peer-urls", format!("http://0.0.0.0:{peer}")),
        ("initial-advertise-peer-urls", format!("http://127.0.0.1:{peer}")),
        ("initial-cluster", format!("k3=http://127.0.0.1:{peer}")),
        ("initial-cluster-token", "k3-etcd".to_owned()),
        ("initial-cluster-state", "new".to_owned()),
    ];
    ServiceContainerSpec {
        image: settings.etcd_image.clone(),
        entrypoint: vec![ETCD.to_owned()],
        args: args.map(|(flag, value)| format!("--{flag}={value}")).into(),
        ports: [client, peer]
            .map(|port| ServiceContainerPort {
                host_ip: address,
                host_port: port,
                container_port: port,
            })
            .into(),
        ..named(settings, "etcd", "/etcd-data")
    }
}

/// The peer URL of etcd.
fn peer_port(client: u16) -> u16 {
    match client {
        ETCD_CLIENT => ETCD_PEER,
        other => other.checked_add(1).unwrap_or(ETCD_PEER),
    }
}

/// Returns the name of the container and of its volume.
fn named(settings: &DatabaseSettings, database: &str, path: &str) -> ServiceContainerSpec {
    let ending = |mark: char| match settings.instance.as_str() {
        "" => String::new(),
        instance => format!("{mark}{instance}"),
    };
    ServiceContainerSpec {
        name: format!("k8s_storage_{database}_{database}{}", ending('_')),
        volume: NamedVolume {
            name: format!("k3-{database}-data{}", ending('-')),
            path: path.to_owned(),
        },
        labels: [(DATABASE_LABEL, database), (INSTANCE_LABEL, &settings.instance)]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
        ..ServiceContainerSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, path::PathBuf};

    use k3_node::runtime::detect::RuntimeSelection;
    use k3_storage::etcd::EtcdOptions;

    use super::{super::Autostart, *};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn settings(instance: &str) -> DatabaseSettings {
        DatabaseSettings {
            autostart: Autostart::On,
            mysql_image: "mysql:8.0".to_owned(),
            etcd_image: "etcd:3".to_owned(),
            instance: instance.to_owned(),
            directory: PathBuf::new(),
            runtime: RuntimeSelection::default(),
        }
    }

    fn of_mysql(user: &str) -> ServiceContainerSpec {
        let options = MysqlOptions {
            user: user.to_owned(),
            password: "s3cret".to_owned(),
            port: 3307,
            ..MysqlOptions::default()
        };
        service(&settings(""), &StorageConfig::Mysql(options), LOOPBACK, 3307).unwrap()
    }

    fn of_etcd(port: u16, instance: &str) -> ServiceContainerSpec {
        let storage = StorageConfig::Etcd(EtcdOptions::default());
        service(&settings(instance), &storage, LOOPBACK, port).unwrap()
    }

    #[test]
    fn mysql_gets_its_database_and_user() {
        let root = of_mysql("root");
        assert_eq!(root.name, "k8s_storage_mysql_mysql");
        assert_eq!(root.volume.name, "k3-mysql-data");
        let expected = [("MYSQL_DATABASE", "k3"), ("MYSQL_ROOT_PASSWORD", "s3cret")];
        assert_eq!(root.env, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let port = root.ports[0];
        assert_eq!(
            (port.host_ip, port.host_port, port.container_port),
            (LOOPBACK, 3307, 3306)
        );
        let other = of_mysql("k3");
        assert!(other.env.contains(&("MYSQL_USER".into(), "k3".into())));
        assert!(other.env.contains(&("MYSQL_PASSWORD".into(), "s3cret".into())));
    }

    #[test]
    fn derives_the_peer_port_of_etcd() {
        for (client, peer) in [(2379, 2380), (3379, 3380), (65535, 2380)] {
            let ports: Vec<_> = of_etcd(client, "")
                .ports
                .iter()
                .map(|port| port.host_port)
                .collect();
            assert_eq!(ports, [client, peer]);
        }
        let etcd = of_etcd(3379, "");
        assert_eq!(etcd.entrypoint, ["/usr/local/bin/etcd"]);
        assert!(
            etcd.args
                .contains(&"--listen-client-urls=http://0.0.0.0:3379".to_owned())
        );
    }

    #[test]
    fn instances_have_separate_names() {
        let etcd = of_etcd(2379, "blue");
        assert_eq!(etcd.name, "k8s_storage_etcd_etcd_blue");
        assert_eq!(etcd.volume.name, "k3-etcd-data-blue");
        assert_eq!(etcd.labels[INSTANCE_LABEL], "blue");
    }
}
