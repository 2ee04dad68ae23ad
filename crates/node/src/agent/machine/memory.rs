//! What `/proc/meminfo` says.

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) inactive_file: u64,
    pub(super) swap_total: u64,
}

impl Memory {
    pub(super) fn parse(text: &str) -> Self {
        let of = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
            kib.unwrap_or(0) << 10
        };
        Memory {
            total: of("MemTotal"),
            free: of("MemFree"),
            inactive_file: of("Inactive(file)"),
            swap_total: of("SwapTotal"),
        }
    }
}
