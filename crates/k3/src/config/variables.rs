//! Environment variables that look like settings and are not.
//!
//! `K3_STROAGE_TYPE=etcd` is a usage error, as a misspelt key in the file is. Other variables are ignored.

use kubecontroller::manager::config::closest_match;

use super::keys::{ConfigKey, KEYS};

/// Prefixes of variables that are not settings: of other flags, of tests, or set by Kubernetes in containers for a Service
/// that is named `k3`.
const OTHER_USES: &[&str] = &[
    "K3_CHILD_",
    "K3_CRASH_",
    "K3_ENVTEST_",
    "K3_FACTS",
    "K3_FUZZ_",
    "K3_GOLDEN",
    "K3_KEEP_NAMES",
    "K3_MIGRATE_",
    "K3_OBJECTS",
    "K3_PORT",
    "K3_REQUIRE_",
    "K3_SERVICE_",
    "K3_TEST_",
    "K3_UPDATE_DOCS",
];

/// Why a variable is invalid, if it looks like a setting.
pub(super) fn check_name(name: &str) -> Option<String> {
    let rest = name.strip_prefix("K3_")?;
    let known: Vec<String> = KEYS.iter().flat_map(ConfigKey::variables).collect();
    if known.iter().any(|known| known == name) || OTHER_USES.iter().any(|other| name.starts_with(other)) {
        return None;
    }
    let is_in_section = KEYS.iter().any(|key| {
        let (section, _) = key.path();
        let section = section.split('.').next().unwrap_or_default();
        !section.is_empty() && rest.starts_with(&format!("{}_", section.to_uppercase()))
    });
    match closest_match(name, known.iter().map(String::as_str)) {
        Some(meant) => Some(format!(
            "environment variable {name}: no such setting; did you mean {meant}?"
        )),
        None if is_in_section => Some(format!("environment variable {name}: no such setting")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_right_name_of_a_misspelt_variable() {
        for (name, meant) in [
            ("K3_STROAGE_TYPE", "K3_STORAGE_TYPE"),
            ("K3_DATADIR", "K3_DATA_DIR"),
            ("K3_API_PROT", "K3_API_PORT"),
        ] {
            let why = check_name(name).unwrap();
            assert!(why.ends_with(&format!("did you mean {meant}?")), "{why}");
        }
        assert!(check_name("K3_STORAGE_POSTGRES_ADDRESS_LIST").is_some());
    }

    #[test]
    fn ignores_other_variables() {
        for name in [
            "K3_API_PORT",
            "K3_MYSQL_URL",
            "NODE_NAME",
            "K3_TEST_ETCD",
            "K3_SERVICE_HOST",
            "K3_PORT_6443_TCP_ADDR",
            "K3_BACKUP_BUCKET_NAME",
        ] {
            assert_eq!(check_name(name), None, "{name}");
        }
    }
}
