//! The addresses of a service inside the cluster, their families, and the policy about both.

use serde_json::Value;

use super::{EXTERNAL_NAME, NONE, families::Family, is_headless, kind};
use crate::{
    field::{Error, Path},
    kinds::{field_checks, go_values},
    name::{self, Strictness},
    strategy::{ErrorList, Tree},
};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// What is wrong with the addresses of a service, their families, and the policy about both.
pub(super) fn judge(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    if kind(service) == EXTERNAL_NAME {
        return;
    }
    let spec = service.at("spec");
    let root = Path::new("spec");
    let field_path = root.child("clusterIPs");
    let families_place = root.child("ipFamilies");
    let list = spec.at("clusterIPs");
    let ips: Vec<_> = spec.texts("clusterIPs").collect();
    match (spec.text("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
        (_, None) => errors.push(Error::required(&field_path, "")),
        (one, Some(first)) if one != *first => {
            let detail = "first value must match `clusterIP`";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
        _ => {}
    }
    let families: Vec<_> = spec.texts("ipFamilies").collect();
    let repeated = field_checks::duplicate_flags(&families);
    for (index, family) in families.iter().enumerate() {
        let field_path = families_place.index(index);
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
    let kept: Vec<_> = old
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
        let msgs = if kept.contains(ip) {
            Vec::new()
        } else {
            name::validate_legacy_ip(&field_path.index(index), ip, Strictness::Strict, &[])
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
        let of = |family| ips.iter().any(|ip| Family::of(ip) == Some(family));
        if !(of(Family::V4) && of(Family::V6)) {
            let detail = "may specify no more than one IP for each IP family";
            errors.push(Error::invalid(&field_path, list.clone(), detail));
        }
    }
    if is_headless(service) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(&families).enumerate() {
        let is_v6 = Family::of(ip) == Some(Family::V6);
        if matches!((*family, is_v6), ("IPv4", true) | ("IPv6", false)) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid(&field_path.index(index), *ip, detail));
        }
    }
}
