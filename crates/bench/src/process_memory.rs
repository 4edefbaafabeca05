//! Memory of a process, from /proc/PID/status: <https://man7.org/linux/man-pages/man5/proc_pid_status.5.html>.

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMemory {
    /// Memory that is no file's: heap, stacks, anonymous maps. Now.
    pub anonymous: u64,
    /// The largest resident set so far, mapped pages of the model included.
    pub peak_resident: u64,
}

/// The memory of a process; `None` where the system does not say: elsewhere than on Linux, or once it has ended.
pub fn of(process: u32) -> Option<ProcessMemory> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let bytes = |name: &str| {
        let value = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    Some(ProcessMemory { anonymous: bytes("RssAnon")?, peak_resident: bytes("VmHWM")? })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_sees_its_own_memory() {
        let before = super::of(std::process::id()).unwrap();
        let block = vec![1u8; 64 << 20];
        let after = super::of(std::process::id()).unwrap();
        assert!(after.anonymous >= before.anonymous + (60 << 20) && after.peak_resident >= 64 << 20, "{after:?}");
        drop(block);
        assert!(super::of(u32::MAX).is_none());
    }
}
