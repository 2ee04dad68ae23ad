//! clusterIPs, ipFamilies and ipFamilyPolicy of a service (dual stack, KEP-563).

use serde_json::Value;

use super::{EXTERNAL_NAME, NONE, families::IpFamily, is_headless, kind};
use crate::{
    field::{Error, Path},
    kinds::{field_checks, go_values},
    name::{self, AddressStrictness},
    strategy::{ErrorList, Tree},
};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

// upstream: pkg/apis/core/validation/validation.go ValidateServiceClusterIPsRelatedFields
pub(super) fn validate_cluster_ips(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    if kind(service) == EXTERNAL_NAME {
        return;
    }
    let spec = service.at("spec");
    let root = Path::new("spec");
    let field_path = root.child("clusterIPs");
    let families_path = root.child("ipFamilies");
    let list = spec.at("clusterIPs");
    let ips: Vec<_> = spec.texts("clusterIPs").collect();
    match (spec.text("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
        (_, None) => errors.push(Error::required(&field_path, "")),
        (cluster_ip, Some(first)) if cluster_ip != *first => {
            let detail = "first value must match `clusterIP`";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
        _ => {}
    }
    let families: Vec<_> = spec.texts("ipFamilies").collect();
    let repeated = field_checks::duplicate_flags(&families);
    for (index, family) in families.iter().enumerate() {
        let field_path = families_path.index(index);
        if !FAMILIES.contains(family) {
            errors.push(Error::not_supported(
                &field_path,
                go_values::typed_string(family),
                FAMILIES,
            ));
        }
        if repeated[index] {
            errors.push(Error::duplicate(&field_path, go_values::typed_string(family)));
        }
    }
    if let Some(policy) = spec.at("ipFamilyPolicy").as_str()
        && !FAMILY_POLICIES.contains(&policy)
    {
        let field_path = root.child("ipFamilyPolicy");
        errors.push(Error::not_supported(
            &field_path,
            go_values::typed_string(policy),
            FAMILY_POLICIES,
        ));
    }
    let old_ips: Vec<_> = old
        .into_iter()
        .flat_map(|old| old.at("spec").texts("clusterIPs"))
        .collect();
    let mut readable = true;
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && *ip == NONE {
            if ips.len() > 1 {
                readable = false;
                let detail = "'None' must be the first and only value";
                errors.push(Error::invalid(&field_path, list.clone(), detail));
            }
            continue;
        }
        let msgs = if old_ips.contains(ip) {
            Vec::new()
        } else {
            name::validate_legacy_ip(&field_path.index(index), ip, AddressStrictness::Strict, &[])
        };
        readable &= msgs.is_empty();
        errors.extend(msgs);
    }
    if ips.len() > 2 {
        let detail = "may only hold up to 2 values";
        errors.push(Error::invalid(&field_path, list.clone(), detail));
    }
    if !readable {
        return;
    }
    if ips.len() > 1 {
        let has_family = |family| ips.iter().any(|ip| IpFamily::of(ip) == Some(family));
        if !(has_family(IpFamily::V4) && has_family(IpFamily::V6)) {
            let detail = "may specify no more than one IP for each IP family";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
    }
    if is_headless(service) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(&families).enumerate() {
        let is_v6 = IpFamily::of(ip) == Some(IpFamily::V6);
        if matches!((*family, is_v6), ("IPv4", true) | ("IPv6", false)) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid(&field_path.index(index), *ip, detail));
        }
    }
}
