//! Process metrics from `/proc/self`.

use std::fs;

use k3_metrics::ExpositionText;

/// Process metrics from `/proc/self`. Unreadable values are omitted.
pub(super) fn write(out: &mut ExpositionText) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let number = |position: usize| fields.get(position).and_then(|field| field.parse::<f64>().ok());
    let ticks = rustix::param::clock_ticks_per_second();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let ticks = ticks as f64;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let page = rustix::param::page_size() as f64;
    if let (Some(user), Some(system)) = (number(11), number(12)) {
        let help = "Total user and system CPU time spent in seconds.";
        out.single(
            "process_cpu_seconds_total",
            "counter",
            help,
            (user + system) / ticks,
        );
    }
    if let (Some(start), Some(boot)) = (number(19), boot_time()) {
        let help = "Start time of the process since unix epoch in seconds.";
        out.single("process_start_time_seconds", "gauge", help, boot + start / ticks);
    }
    if let Some(bytes) = number(20) {
        out.single(
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            bytes,
        );
    }
    if let Some(pages) = number(21) {
        out.single(
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            pages * page,
        );
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The directory itself is open while it is read.
        let open = open.count().saturating_sub(1);
        out.single(
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open,
        );
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let max = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    if let Some(max) = max {
        out.single(
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            max,
        );
    }
}

/// When the machine began, in seconds since 1970.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_proc_self() {
        let mut out = ExpositionText::default();
        write(&mut out);
        let text = out.finish();
        let figure = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} in {text}"))
                .parse::<f64>()
                .unwrap()
        };
        assert!(figure("process_resident_memory_bytes") > 1e6);
        assert!(figure("process_open_fds") >= 3.0);
        assert!(figure("process_max_fds") >= figure("process_open_fds"));
        let now = k3_task::Clock::system().system_time();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let started = figure("process_start_time_seconds");
        assert!(
            started <= now + 1.0 && started > now - 86_400.0,
            "{started} before {now}"
        );
    }
}
