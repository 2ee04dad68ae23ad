//! The pause program: a static executable of less than 300 bytes.
//!
//! Promises: it never exits by itself; it exits at once on SIGTERM and SIGINT, also as PID 1; it ignores SIGCHLD, so that the kernel reaps
//! its adopted children, and pods with a shared PID namespace collect no zombies.

/// Load address.
const BASE: u64 = 0x40_0000;
/// Size of the ELF header and its one program header.
const HEADERS: u64 = 64 + 56;
/// Length of the instructions; the two `sigaction` structs follow.
const CODE_LENGTH: usize = 0x68;
/// The kernel requires a restorer on x86-64, although the handler never returns.
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_IGN: u64 = 1;

struct MachineCode {
    /// `e_machine` of the ELF header.
    number: u16,
    code: [u8; CODE_LENGTH],
    /// Offset of the signal handler in the code.
    handler: u64,
}

/// Returns the executable for a CPU architecture, if supported.
pub(super) fn elf(processor: &str) -> Option<Vec<u8>> {
    let machine = match processor {
        "x86_64" => x86_64(),
        "aarch64" => aarch64(),
        _ => return None,
    };
    let entry = BASE + HEADERS;
    let handler = entry + machine.handler;
    let mut body = machine.code.to_vec();
    for word in [SIG_IGN, 0, 0, 0, handler, SA_RESTORER, handler, 0] {
        body.extend(word.to_le_bytes());
    }
    let length = HEADERS + body.len() as u64;

    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    file.extend([0; 8]);
    for half in [2, machine.number] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [entry, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // One segment: PT_LOAD, readable and executable.
    for half in [1_u32, 5] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, BASE, BASE, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(body);
    Some(file)
}

/// `rt_sigaction(SIGCHLD, SIG_IGN)`, `rt_sigaction(SIGTERM, handler)`, `rt_sigaction(SIGINT, handler)`, then `pause()` in a loop;
/// the handler is `exit_group(0)`.
#[rustfmt::skip]
fn x86_64() -> MachineCode {
    MachineCode {
        number: 62,
        handler: 0x5a,
        code: [
            0xb8, 0x0d, 0, 0, 0, 0xbf, 0x11, 0, 0, 0, 0x48, 0x8d, 0x35, 0x57, 0, 0, 0, 0x31, 0xd2, 0x41, 0xba, 0x08, 0, 0, 0, 0x0f, 0x05,
            0xb8, 0x0d, 0, 0, 0, 0xbf, 0x0f, 0, 0, 0, 0x48, 0x8d, 0x35, 0x5c, 0, 0, 0, 0x31, 0xd2, 0x41, 0xba, 0x08, 0, 0, 0, 0x0f, 0x05,
            0xb8, 0x0d, 0, 0, 0, 0xbf, 0x02, 0, 0, 0, 0x48, 0x8d, 0x35, 0x41, 0, 0, 0, 0x31, 0xd2, 0x41, 0xba, 0x08, 0, 0, 0, 0x0f, 0x05,
            0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7,
            0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05,
            0x0f, 0x1f, 0x44, 0, 0,
        ],
    }
}

/// Like [`x86_64`]; aarch64 has no `pause()`, so it waits in `ppoll()` without descriptors.
fn aarch64() -> MachineCode {
    const SVC: u32 = 0xd400_0001;
    const NOP: u32 = 0xd503_201f;
    let instructions = [
        movz(8, 134),
        movz(0, 17),
        adr(1, 0x08, 0x68),
        movz(2, 0),
        movz(3, 8),
        SVC,
        movz(8, 134),
        movz(0, 15),
        adr(1, 0x20, 0x88),
        movz(2, 0),
        movz(3, 8),
        SVC,
        movz(0, 2),
        SVC,
        movz(8, 73),
        movz(0, 0),
        movz(1, 0),
        movz(2, 0),
        movz(3, 0),
        movz(4, 0),
        SVC,
        // Branch back by seven instructions.
        0x1400_0000 | (0x03ff_ffff - 6),
        movz(8, 94),
        movz(0, 0),
        SVC,
        NOP,
    ];
    let mut code = [0; CODE_LENGTH];
    for (bytes, instruction) in code.chunks_exact_mut(4).zip(instructions) {
        bytes.copy_from_slice(&instruction.to_le_bytes());
    }
    MachineCode {
        number: 183,
        handler: 0x58,
        code,
    }
}

/// `movz xN, #value`
fn movz(register: u32, value: u32) -> u32 {
    0xd280_0000 | (value << 5) | register
}

/// `adr xN, to`, for the instruction at `from`.
fn adr(register: u32, from: u32, to: u32) -> u32 {
    let distance = to - from;
    0x1000_0000 | ((distance & 3) << 29) | ((distance >> 2) << 5) | register
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command};

    use super::*;

    #[test]
    fn encodes_aarch64_instructions() {
        assert_eq!(movz(8, 134), 0xd280_10c8);
        assert_eq!(adr(1, 0x08, 0x68), 0x1000_0301);
        let code = aarch64().code;
        // b .-0x1c
        assert_eq!(code[0x54..0x58], 0x17ff_fff9_u32.to_le_bytes());
    }

    #[test]
    fn headers_have_file_length() {
        for processor in ["x86_64", "aarch64"] {
            let file = elf(processor).unwrap();
            assert_eq!(file.len(), 120 + CODE_LENGTH + 64);
            assert_eq!(file[96..104], (file.len() as u64).to_le_bytes());
        }
    }

    /// Runs the program for real.
    #[test]
    fn program_waits_and_exits_on_sigterm() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pause");
        std::fs::write(&path, elf(std::env::consts::ARCH).unwrap()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = Command::new(&path).spawn().unwrap();
        // It has set its handlers once it sleeps in a system call.
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
            .unwrap()
            .contains(") S ")
        {
            std::thread::yield_now();
        }
        assert!(child.try_wait().unwrap().is_none());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}
