//! Survives reads of mapped pages that the system cannot fetch.
//!
//! Such a read raises SIGBUS in the thread that reads. The handler looks the address up among the guarded maps; there
//! it maps zeros over the rest of that map, from the faulting page on, notes the page and returns: the read continues.
//! Faults anywhere else are passed to the previous handler of SIGBUS, in the end to the system, which kills the
//! process.
//!
//! The handler may interrupt any code, hence uses no lock and no allocation: the guarded maps are stored in blocks of
//! atomics, which are added where all places are taken and are never freed, and `mmap` is one system call. A library
//! that later installs another handler, and does not pass on foreign faults, disables the guard.

use libc::{c_int, c_void, siginfo_t};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Once, OnceLock};

/// Maps of one block.
const BLOCK: usize = 64;

/// Places for maps, and more of them.
struct Block {
    slots: [Slot; BLOCK],
    /// Reading it is an atomic load, as a handler may.
    next: OnceLock<Box<Block>>,
}

static FIRST: Block = Block::new();

impl Block {
    const fn new() -> Self {
        Block { slots: [const { Slot::new() }; BLOCK], next: OnceLock::new() }
    }

    /// The place that a map takes, in this block or one behind it.
    fn take(&'static self, map: &[u8]) -> &'static Slot {
        match self.slots.iter().find(|slot| slot.take(map)) {
            Some(slot) => slot,
            None => self.next.get_or_init(|| Box::new(Block::new())).take(map),
        }
    }

    /// Whether one of the maps took the fault: see [`Slot::absorb`].
    fn absorb(&self, address: usize, page_size: usize) -> bool {
        self.slots.iter().any(|slot| slot.absorb(address, page_size))
            || self.next.get().is_some_and(|next| next.absorb(address, page_size))
    }
}

/// A guarded map. All accesses are sequentially consistent: they are rare, and their order is what makes this right.
#[derive(Debug)]
struct Slot {
    /// Address of the map, or [`FREE`] or [`TAKEN`].
    start: AtomicUsize,
    len: AtomicUsize,
    /// Offset of the first page that could not be had, or [`NONE`].
    missing: AtomicUsize,
}

const FREE: usize = 0;
/// Being filled in. No map lies there.
const TAKEN: usize = 1;
const NONE: usize = usize::MAX;

impl Slot {
    const fn new() -> Self {
        Slot { start: AtomicUsize::new(FREE), len: AtomicUsize::new(0), missing: AtomicUsize::new(NONE) }
    }

    fn take(&'static self, map: &[u8]) -> bool {
        let taken = self.start.compare_exchange(FREE, TAKEN, SeqCst, SeqCst).is_ok();
        if taken {
            self.missing.store(NONE, SeqCst);
            self.len.store(map.len(), SeqCst);
            self.start.store(map.as_ptr().addr(), SeqCst);
        }
        taken
    }

    /// Puts zeros at `address` and all that follows in this map; `false` if it does not lie in it.
    ///
    /// The slot may be freed and taken again meanwhile. Start and length still belong together if the start was the
    /// same before and after; and if they then contain the address, they are those of the map that the interrupted
    /// thread reads, which cannot be dropped until the thread goes on.
    #[allow(unsafe_code)]
    fn absorb(&self, address: usize, page_size: usize) -> bool {
        let start = self.start.load(SeqCst);
        let len = self.len.load(SeqCst);
        let torn = self.start.load(SeqCst) != start;
        if start == FREE || start == TAKEN || torn || address.wrapping_sub(start) >= len {
            return false;
        }
        let offset = (address - start) / page_size * page_size;
        // Before the zeros can be read by anyone.
        self.missing.fetch_min(offset, SeqCst);
        // SAFETY: replaces pages of a map that this crate made and still holds, from a page's start to the map's end;
        // like those before they are readable only, and their bytes are as good as any.
        let zeros = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(start + offset),
                len - offset,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        zeros != libc::MAP_FAILED
    }
}

/// Keeps a map in the registry.
#[derive(Debug)]
pub(super) struct Guard(&'static Slot);

impl Guard {
    /// Guards a map, which begins with a page and must be held for longer than the guard.
    pub(super) fn over(map: &[u8]) -> Self {
        install();
        Guard(FIRST.take(map))
    }

    /// From which byte of the map on some read saw zeros instead of the file.
    pub(super) fn missing(&self) -> Option<usize> {
        Some(self.0.missing.load(SeqCst)).filter(|&offset| offset != NONE)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, SeqCst);
    }
}

/// What the handler needs to know.
struct Installed {
    page_size: usize,
    previous: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

#[allow(unsafe_code)]
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: plain system calls on local values. The previous action is known before ours can be called.
        // The alternative stack is the one on which the standard library tells stack overflows from other faults.
        unsafe {
            let page_size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let mut previous: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous);
            INSTALLED.get_or_init(|| Installed { page_size, previous });
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    });
}

#[allow(unsafe_code)]
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: with SA_SIGINFO the system passes a valid `info`.
    let (address, sent_by_process) = unsafe { ((*info).si_addr().addr(), (*info).si_code <= 0) };
    if !sent_by_process && FIRST.absorb(address, installed.page_size) {
        return;
    }
    let handler = installed.previous.sa_sigaction;
    // SAFETY: calls that a handler may make; a previous handler is called as its flags say that it is declared.
    unsafe {
        match handler {
            libc::SIG_IGN if sent_by_process => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // Delivered once this handler has returned, and then fatal.
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &default, ptr::null_mut());
                libc::raise(signal);
            }
            _ if installed.previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            _ => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
