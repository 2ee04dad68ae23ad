//! Resource limits of the process.

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
    thread::disable_transparent_huge_pages,
};

/// Raises the limit of open files as far as possible without privileges. Each client connection
/// is one, and the usual 1024 are fewer than a small cluster needs.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = ?limit.current, "failed to raise the limit of open files");
    }
}

/// Ensures that the umask leaves the owner's permissions. With a umask such as 0777 a process cannot open directories that it
/// just created.
pub(crate) fn keep_owner_permissions() {
    let given = umask(Mode::from_raw_mode(0o077));
    umask(given & Mode::from_raw_mode(0o077));
}

/// Disables transparent huge pages: with them a fresh server takes twice the memory, because its objects are small and
/// scattered.
pub(crate) fn use_small_pages() {
    if let Err(error) = disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "failed to disable transparent huge pages");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raises_open_files_to_the_hard_limit() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
