//! Parser of `/proc/meminfo`.

/// Values of `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Meminfo {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) inactive_file: u64,
    pub(super) swap_total: u64,
}

impl Meminfo {
    pub(super) fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
            kib.unwrap_or(0) << 10
        };
        Meminfo {
            total: value("MemTotal"),
            free: value("MemFree"),
            inactive_file: value("Inactive(file)"),
            swap_total: value("SwapTotal"),
        }
    }
}
