//! Denies system calls to all processes in a sandbox, in addition to the filter
//! of the container engine: an engine of 2022 allows io_uring, and every engine
//! allows sockets that a network namespace does not confine.
//!
//! The filter applies to the agent and all its children, and cannot be removed.
//!
//! ```text
//! architecture of the call? ── unknown ──► allowed
//!   │
//!   ├─ io_uring_*, userfaultfd, add_key, request_key, keyctl ──► EPERM
//!   ├─ prlimit64 of the first process, the agent ──────────────► EPERM
//!   ├─ ioctl that creates a subvolume of btrfs ────────────────► EPERM
//!   ├─ socket, socketpair of a family not in FAMILIES ─────────► EAFNOSUPPORT
//!   ├─ socketcall for a socket: a filter cannot see the family ► EAFNOSUPPORT
//!   └─ any other call ─────────────────────────────────────────► allowed
//! ```

use anyhow::Context;
use rustix::io::Errno;
use seccompiler::{BpfProgram, sock_filter};

/// The families of sockets that sandboxes need: Unix, IPv4, IPv6, and netlink,
/// which programs use to list interfaces. Other families are denied, because
/// some of them, such as vsock, reach the host even from a separate network
/// namespace.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];

/// `io_uring_setup`, `io_uring_enter` and `io_uring_register`. Newer system
/// calls have the same numbers on all architectures.
const IO_URING: [u32; 3] = [425, 426, 427];

/// The ioctls that create a subvolume of btrfs or a snapshot of one. Any owner of
/// a directory may use them, and the home of a sandbox is on btrfs. The limit of
/// a subvolume does not count the subvolumes inside it, and the server could not
/// delete a subvolume that contains others.
const NEW_SUBVOLUME: [u32; 4] = [0x5000_9401, 0x5000_940e, 0x5000_9417, 0x5000_9418];

/// The numbers of the system calls of one architecture.
struct Numbers {
    architecture: u32,
    /// userfaultfd, `add_key`, `request_key`, keyctl.
    refused: [u32; 4],
    /// prlimit64. A process could kill the agent by limiting its processor
    /// time.
    limit: u32,
    /// socket, socketpair.
    sockets: [u32; 2],
    /// ioctl, also of the x32 ABI, which has another number for it.
    ioctl: [u32; 2],
    socketcall: Option<u32>,
}

/// The supported architectures and their 32-bit counterparts.
const ARCHITECTURES: [Numbers; 4] = [
    // x86-64.
    Numbers {
        architecture: 0xc000_003e,
        refused: [323, 248, 249, 250],
        limit: 302,
        sockets: [41, 53],
        ioctl: [16, 514],
        socketcall: None,
    },
    // x86. Debian's C library creates sockets only with socketcall, so 32-bit
    // programs that use this library have no sockets.
    Numbers {
        architecture: 0x4000_0003,
        refused: [374, 286, 287, 288],
        limit: 340,
        sockets: [359, 360],
        ioctl: [54, 54],
        socketcall: Some(102),
    },
    // AArch64.
    Numbers {
        architecture: 0xc000_00b7,
        refused: [282, 217, 218, 219],
        limit: 261,
        sockets: [198, 199],
        ioctl: [29, 29],
        socketcall: None,
    },
    // ARM.
    Numbers {
        architecture: 0x4000_0028,
        refused: [388, 309, 310, 311],
        limit: 369,
        sockets: [281, 288],
        ioctl: [54, 54],
        socketcall: None,
    },
];

/// The subcalls of socketcall that create sockets.
const MAKE_SOCKET: [u32; 2] = [1, 8];

/// System calls of the x32 ABI have the numbers of x86-64 plus this bit.
const X32: u32 = 0x4000_0000;

// Offsets in `seccomp_data` of the call's number, the architecture and the
// lower halves of the first and the second argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST: u32 = 16;
const SECOND: u32 = 24;

// Opcodes of BPF, and the results that a filter can return.
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;

/// Installs the filter permanently. Must be called while the process has one
/// thread: other threads would not get the filter.
pub(crate) fn give_up() -> anyhow::Result<()> {
    seccompiler::apply_filter(&program()).context("cannot install the seccomp filter")
}

fn program() -> BpfProgram {
    let mut program = vec![instruction(LOAD, ARCHITECTURE)];
    for numbers in &ARCHITECTURES {
        let calls = calls(numbers);
        program.push(unless(numbers.architecture, calls.len()));
        program.extend(calls);
    }
    program.push(instruction(RETURN, ALLOW));
    program
}

/// Returns the part of the filter for one architecture.
fn calls(numbers: &Numbers) -> BpfProgram {
    let mut program = vec![instruction(LOAD, NUMBER), instruction(AND, !X32)];
    for number in IO_URING.into_iter().chain(numbers.refused) {
        program.push(unless(number, 1));
        program.push(fail(Errno::PERM));
    }
    program.push(unless(numbers.limit, 4));
    program.push(instruction(LOAD, FIRST));
    program.push(unless(1, 1));
    program.push(fail(Errno::PERM));
    program.push(instruction(RETURN, ALLOW));
    for number in numbers.ioctl {
        let mut request = vec![instruction(LOAD, SECOND)];
        for refused in NEW_SUBVOLUME {
            request.push(unless(refused, 1));
            request.push(fail(Errno::PERM));
        }
        request.push(instruction(RETURN, ALLOW));
        program.push(unless(number, request.len()));
        program.extend(request);
    }
    for number in numbers.sockets {
        let mut family = vec![instruction(LOAD, FIRST)];
        for allowed in FAMILIES {
            family.push(unless(allowed, 1));
            family.push(instruction(RETURN, ALLOW));
        }
        family.push(fail(Errno::AFNOSUPPORT));
        program.push(unless(number, family.len()));
        program.extend(family);
    }
    if let Some(number) = numbers.socketcall {
        let mut call = vec![instruction(LOAD, FIRST)];
        for refused in MAKE_SOCKET {
            call.push(unless(refused, 1));
            call.push(fail(Errno::AFNOSUPPORT));
        }
        program.push(unless(number, call.len()));
        program.extend(call);
    }
    program.push(instruction(RETURN, ALLOW));
    program
}

fn instruction(code: u16, k: u32) -> sock_filter {
    let (jt, jf) = (0, 0);
    sock_filter { code, jt, jf, k }
}

/// Continues with the next instruction if the loaded value is `value`;
/// otherwise skips `skip` instructions.
fn unless(value: u32, skip: usize) -> sock_filter {
    sock_filter {
        // The instructions for one architecture are fewer than 256; a test
        // checks this.
        jf: u8::try_from(skip).unwrap_or(u8::MAX),
        ..instruction(EQUAL, value)
    }
}

fn fail(errno: Errno) -> sock_filter {
    instruction(RETURN, FAIL | errno.raw_os_error().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: u32 = 0xc000_003e;
    const X86: u32 = 0x4000_0003;

    /// Interprets the filter as the kernel does, and returns its decision on a
    /// call.
    fn outcome(architecture: u32, number: u32, first: u32) -> u32 {
        outcome_of(architecture, number, [first, 0])
    }

    fn outcome_of(architecture: u32, number: u32, [first, second]: [u32; 2]) -> u32 {
        let (program, mut at, mut loaded) = (program(), 0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match (step.code, step.k) {
                (LOAD, NUMBER) => loaded = number,
                (LOAD, ARCHITECTURE) => loaded = architecture,
                (LOAD, FIRST) => loaded = first,
                (LOAD, SECOND) => loaded = second,
                (AND, mask) => loaded &= mask,
                (EQUAL, value) if loaded == value => {}
                (EQUAL, _) => at += usize::from(step.jf),
                (RETURN, result) => return result,
                other => panic!("{other:?}"),
            }
        }
    }

    fn refused(errno: Errno) -> u32 {
        FAIL | errno.raw_os_error().unsigned_abs()
    }

    #[test]
    fn denies_io_uring_keys_and_userfaultfd_on_every_architecture() {
        for numbers in &ARCHITECTURES {
            for number in IO_URING.into_iter().chain(numbers.refused) {
                let seen = outcome(numbers.architecture, number, 0);
                assert_eq!(seen, refused(Errno::PERM), "{number}");
            }
        }
        assert_eq!(outcome(X86_64, 425 | X32, 0), refused(Errno::PERM));
    }

    #[test]
    fn denies_changes_of_the_limits_of_the_first_process() {
        for numbers in &ARCHITECTURES {
            let outcome = |pid| outcome(numbers.architecture, numbers.limit, pid);
            assert_eq!(outcome(1), refused(Errno::PERM));
            assert_eq!((outcome(0), outcome(7)), (ALLOW, ALLOW));
        }
    }

    #[test]
    fn denies_new_subvolumes_and_allows_other_ioctls() {
        let window_size = 0x5413;
        for numbers in &ARCHITECTURES {
            for number in numbers.ioctl {
                let outcome = |request| outcome_of(numbers.architecture, number, [3, request]);
                for request in NEW_SUBVOLUME {
                    assert_eq!(outcome(request), refused(Errno::PERM), "{request:x}");
                }
                assert_eq!(outcome(window_size), ALLOW);
            }
        }
        let of_x32 = outcome_of(X86_64, 514 | X32, [3, NEW_SUBVOLUME[0]]);
        assert_eq!(of_x32, refused(Errno::PERM));
    }

    #[test]
    fn allows_only_sockets_of_the_listed_families() {
        let (vsock, alg, packet) = (40, 38, 17);
        for numbers in &ARCHITECTURES {
            for number in numbers.sockets {
                for family in FAMILIES {
                    assert_eq!(outcome(numbers.architecture, number, family), ALLOW);
                }
                for family in [vsock, alg, packet, 0] {
                    let seen = outcome(numbers.architecture, number, family);
                    assert_eq!(seen, refused(Errno::AFNOSUPPORT), "{family}");
                }
            }
        }
        assert_eq!(outcome(X86, 102, 1), refused(Errno::AFNOSUPPORT));
        assert_eq!(outcome(X86, 102, 8), refused(Errno::AFNOSUPPORT));
    }

    #[test]
    fn allows_all_other_calls() {
        // The calls are getpid, connect by socketcall, and a call of an unknown
        // architecture.
        assert_eq!(outcome(X86_64, 39, 0), ALLOW);
        assert_eq!(outcome(X86, 102, 3), ALLOW);
        assert_eq!(outcome(0x1234_5678, 425, 0), ALLOW);
        let largest = ARCHITECTURES.iter().map(|numbers| calls(numbers).len());
        assert!(largest.max().unwrap() <= usize::from(u8::MAX));
    }
}
