//! Validation of names, keys, labels and addresses.
//!
//! Each rule gives what is wrong with a name, with the messages clients of the API know; nothing means it is valid.
//! Promises: linear in the length of the name, and nothing is allocated for a valid one.

mod address;
mod dns;
mod generate;
mod key;
mod meta;
mod word;

pub use self::{
    address::{
        AddressStrictness, Subnet, cidr_warnings, ip_warning, parse_cidr_sloppy, parse_ip_sloppy,
        validate_cidr, validate_interface_address, validate_ip, validate_legacy_cidr, validate_legacy_ip,
    },
    dns::{
        validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain_with_underscore,
        validate_fully_qualified_domain, validate_fully_qualified_name, validate_wildcard_dns1123_subdomain,
    },
    generate::{MAX_BASE, generate},
    key::{
        validate_config_key, validate_domain_prefixed_key, validate_domain_prefixed_path,
        validate_path_segment_name, validate_path_segment_prefix, validate_prefixed_label_key,
    },
    meta::{NameFormat, validate_annotations, validate_finalizers, validate_labels},
    word::{
        validate_c_identifier, validate_decimal_integer, validate_env_var_name, validate_http_header_name,
        validate_in_range, validate_percent, validate_port_name, validate_port_number,
        validate_relaxed_env_var_name,
    },
};

pub use k3_labels::key::{
    ErrorMessages, validate_dns1123_subdomain, validate_label_key, validate_label_value,
};
