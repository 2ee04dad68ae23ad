//! The memory of processes, as the kernel counts it.

use crate::BenchError;

/// Bytes of resident memory of a process: a process id, or `self`.
pub(crate) fn resident(process: &str) -> Result<u64, BenchError> {
    in_status(&status(process)?, "VmRSS:")
}

/// The most bytes of resident memory that a process ever had.
pub(crate) fn peak(process: &str) -> Result<u64, BenchError> {
    in_status(&status(process)?, "VmHWM:")
}

fn status(process: &str) -> Result<String, BenchError> {
    Ok(std::fs::read_to_string(format!("/proc/{process}/status"))?)
}

fn in_status(status: &str, name: &str) -> Result<u64, BenchError> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes: u64 = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or_else(|| format!("no {name} in /proc/PID/status"))?
        .parse()?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(
            in_status("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n", "VmRSS:").unwrap(),
            12 * 1024
        );
        assert!(in_status("VmPeak:\t 9 kB\n", "VmRSS:").is_err());
    }
}
