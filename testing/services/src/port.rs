//! Free ports.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
};

use crate::ServiceError;

/// Where the search begins: above the ports that usual services have.
const LOWEST: u16 = 15_000;

/// A port of 127.0.0.1 on which no process listens now.
///
/// It lies below the range from which the kernel serves outgoing connections: a service that is killed
/// and restarted on its port must not find it taken by the client of another process in between.
pub fn free_port() -> Result<u16, ServiceError> {
    let highest = ephemeral_range_start().clamp(LOWEST + 1_000, u16::MAX);
    let span = u64::from(highest - LOWEST);
    for _ in 0..1_000 {
        let offset = u16::try_from(random() % span).expect("span fits in u16");
        let port = LOWEST + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(ServiceError::NoPort)
}

/// A number that differs between calls and between processes: the keys of the standard hasher are random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn ephemeral_range_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port().unwrap();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    }

    #[test]
    fn a_taken_port_is_not_offered() {
        let held: Vec<_> = (0..200)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).unwrap())
            .collect();
        let taken: Vec<_> = held
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        for _ in 0..200 {
            assert!(!taken.contains(&free_port().unwrap()));
        }
    }
}
