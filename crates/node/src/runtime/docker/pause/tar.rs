//! Writes tar archives of small files.

pub(super) struct TarBuilder {
    bytes: Vec<u8>,
}

const BLOCK: usize = 512;

// --- TarBuilder ---

impl TarBuilder {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Adds a file of root, with a name of at most 100 bytes and without a date, so that archives are reproducible.
    pub(super) fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", content.len()));
        put(136, "00000000000");
        // The checksum field counts as spaces.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar");
        put(263, "00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_the_archive() {
        let mut archive = TarBuilder::new();
        archive.add("one", 0o755, b"first");
        archive.add("two", 0o644, &[b'x'; 1_000]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        std::fs::write(&path, archive.finish()).unwrap();
        let listed = Command::new("tar").arg("-tvf").arg(&path).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(
            listed.contains("-rwxr-xr-x 0/0               5 1970-01-01 00:00 one"),
            "{listed}"
        );
        assert!(
            listed.contains("-rw-r--r-- 0/0            1000 1970-01-01 00:00 two"),
            "{listed}"
        );
    }
}
