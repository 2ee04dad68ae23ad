//! The program that waits: a static executable of less than 300 bytes.
//!
//! Promises: it never ends by itself; it ends at once on SIGTERM and SIGINT, also as the first process of its namespace; children
//! that are left to it vanish when they end, so that a pod whose containers share processes gathers no zombies.

/// Where the kernel puts the file.
const BASE: u64 = 0x40_0000;
/// The header of the file and that of its one segment.
const HEADERS: u64 = 64 + 56;
/// Where the two actions for signals stand, behind the instructions.
const CODE_LENGTH: usize = 0x68;
/// The kernel wants to be told where a handler returns to, though ours never does.
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_IGN: u64 = 1;

struct Machine {
    /// As the header names it.
    number: u16,
    code: [u8; CODE_LENGTH],
    /// Where in the code a signal is handled.
    handler: u64,
}

/// The executable for a processor, if we know it.
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
    // One segment, to be loaded, read and executed.
    for half in [1_u32, 5] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, BASE, BASE, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(body);
    Some(file)
}

/// `rt_sigaction(SIGCHLD, ignore)`, `rt_sigaction(SIGTERM, leave)`, `rt_sigaction(SIGINT, leave)`, then `pause()` for ever;
/// the handler is `exit_group(0)`.
#[rustfmt::skip]
fn x86_64() -> Machine {
    Machine {
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

/// As [`x86_64`]; this processor has no `pause()`, and waits with `ppoll()` for nothing.
fn aarch64() -> Machine {
    const SVC: u32 = 0xd400_0001;
    const NOP: u32 = 0xd503_201f;
    let instructions = [
        set(8, 134),
        set(0, 17),
        address(1, 0x08, 0x68),
        set(2, 0),
        set(3, 8),
        SVC,
        set(8, 134),
        set(0, 15),
        address(1, 0x20, 0x88),
        set(2, 0),
        set(3, 8),
        SVC,
        set(0, 2),
        SVC,
        set(8, 73),
        set(0, 0),
        set(1, 0),
        set(2, 0),
        set(3, 0),
        set(4, 0),
        SVC,
        // Back by seven instructions.
        0x1400_0000 | (0x03ff_ffff - 6),
        set(8, 94),
        set(0, 0),
        SVC,
        NOP,
    ];
    let mut code = [0; CODE_LENGTH];
    for (place, instruction) in code.chunks_exact_mut(4).zip(instructions) {
        place.copy_from_slice(&instruction.to_le_bytes());
    }
    Machine {
        number: 183,
        handler: 0x58,
        code,
    }
}

/// `movz xN, #value`
fn set(register: u32, value: u32) -> u32 {
    0xd280_0000 | (value << 5) | register
}

/// `adr xN, to`, for the instruction at `from`.
fn address(register: u32, from: u32, to: u32) -> u32 {
    let distance = to - from;
    0x1000_0000 | ((distance & 3) << 29) | ((distance >> 2) << 5) | register
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command};

    use super::*;

    #[test]
    fn the_instructions_for_arm_are_those_an_assembler_makes() {
        assert_eq!(set(8, 134), 0xd280_10c8);
        assert_eq!(address(1, 0x08, 0x68), 0x1000_0301);
        let code = aarch64().code;
        // b .-0x1c
        assert_eq!(code[0x54..0x58], 0x17ff_fff9_u32.to_le_bytes());
    }

    #[test]
    fn both_files_are_as_long_as_their_headers_say() {
        for processor in ["x86_64", "aarch64"] {
            let file = elf(processor).unwrap();
            assert_eq!(file.len(), 120 + CODE_LENGTH + 64);
            assert_eq!(file[96..104], (file.len() as u64).to_le_bytes());
        }
    }

    /// Runs it for real: it waits until it is told to end, and ends well.
    #[test]
    fn the_program_waits_and_ends_when_it_is_asked_to() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pause");
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
