//! Numbers of signals in CRI, which differ from the kernel's.

/// Signals in the order of the CRI enum, from 1. Real-time signals follow.
const NAMES: [&str; 34] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// `SIGRTMIN`; `SIGRTMIN+15` is 50.
const REAL_TIME_MIN: i32 = 35;

/// `SIGRTMAX`; `SIGRTMAX-14` is 51.
const REAL_TIME_MAX: i32 = 65;

/// Returns the number of a signal; 0 (the image's signal) for no or an unknown name.
// upstream: pkg/kubelet/kuberuntime/helpers.go getContainerConfigStopSignal
pub(super) fn number(name: &str) -> i32 {
    if let Some(plus) = name.strip_prefix("SIGRTMIN") {
        return offset(plus, '+', 15).map_or(0, |offset| REAL_TIME_MIN + offset);
    }
    if let Some(minus) = name.strip_prefix("SIGRTMAX") {
        return offset(minus, '-', 14).map_or(0, |offset| REAL_TIME_MAX - offset);
    }
    (1..)
        .zip(NAMES)
        .find(|(_, known)| *known == name)
        .map_or(0, |(number, _)| number)
}

fn offset(text: &str, sign: char, max: i32) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    let offset = text.strip_prefix(sign)?.parse().ok()?;
    (1..=max).contains(&offset).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn signals_have_cri_numbers() {
        for (name, expected) in [
            ("", 0),
            ("SIGABRT", 1),
            ("SIGINT", 10),
            ("SIGKILL", 13),
            ("SIGQUIT", 18),
            ("SIGTERM", 23),
            ("SIGUSR1", 29),
            ("SIGXFSZ", 34),
            ("SIGRTMIN", 35),
            ("SIGRTMIN+3", 38),
            ("SIGRTMIN+15", 50),
            ("SIGRTMAX-14", 51),
            ("SIGRTMAX", 65),
            ("SIGRTMIN+16", 0),
            ("NONSENSE", 0),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
    }
}
