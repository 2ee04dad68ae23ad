//! What names of all sorts may look like.
//!
//! Each rule gives what is wrong with a name, in the words clients of the API know; nothing means it is valid.
//! Promises: linear in the length of the name, and nothing is allocated for a valid one.

mod address;
mod dns;
mod generate;
mod key;
mod meta;
mod text;
mod word;

pub use self::{
    address::{
        Strictness, Subnet, cidr, cidr_warnings, interface_address, ip, ip_warning, legacy_cidr, legacy_ip,
        parse_cidr_sloppy, parse_ip_sloppy,
    },
    dns::{
        dns1035_label, dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore,
        fully_qualified_domain, fully_qualified_name, wildcard_dns1123_subdomain,
    },
    generate::{MAX_BASE, generate},
    key::{
        config_key, domain_prefixed_key, domain_prefixed_path, label_key, label_value, path_segment_name,
        path_segment_prefix, prefixed_label_key,
    },
    meta::{Rule, annotations, finalizers, labels},
    word::{
        c_identifier, decimal_integer, env_var_name, http_header_name, in_range, percent, port_name,
        port_number, relaxed_env_var_name,
    },
};

/// What is wrong with a name; empty if nothing is.
pub type Faults = Vec<String>;
