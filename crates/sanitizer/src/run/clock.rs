//! Clocks of workgroups: for each of the others the last epoch whose storage accesses are ordered before.
//!
//! WGSL's atomic operations are relaxed: they order nothing by themselves. A storage barrier is a fence of the whole
//! workgroup on the scope of the device. Accesses before a storage barrier of one workgroup are thus ordered before
//! those behind a storage barrier of another, if an atomic operation behind the first has been seen by one before the
//! second. Memory that is declared `@coherent` needs no second fence: any barrier behind what was seen will do.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// For each workgroup an epoch of its storage accesses.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<u32, u32>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        for (workgroup, epoch) in &other.0 {
            let known = self.0.entry(*workgroup).or_default();
            *known = (*known).max(*epoch);
        }
    }

    /// Whether that epoch of a workgroup is ordered before.
    pub(super) fn has(&self, workgroup: u32, epoch: u32) -> bool {
        self.0.get(&workgroup).is_some_and(|known| *known >= epoch)
    }
}

/// A place of storage that atomic operations reach: the store, and the byte.
pub(super) type AtomicPlace = (usize, usize);

/// What the values of atomic places have been released with.
#[derive(Debug, Default)]
pub(super) struct Releases(HashMap<AtomicPlace, Released>);

#[derive(Debug, Default)]
struct Released {
    clock: Clock,
    version: u64,
}

/// What a workgroup knows.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Ordered before accesses of storage.
    pub(super) known: Clock,
    /// Ordered before accesses of coherent storage.
    pub(super) seen: Clock,
    /// What atomic operations will be released with.
    released: Rc<Clock>,
    /// Seen in atomic operations, and not behind a barrier yet.
    pending: Clock,
    /// The version that was acquired last of each place.
    acquired: HashMap<AtomicPlace, u64>,
}

impl Knowledge {
    /// A barrier of the workgroup, at the end of that epoch of its storage accesses.
    pub(super) fn barrier(&mut self, workgroup: u32, storage_epoch: u32, is_storage: bool) {
        self.seen.join(&self.pending);
        if is_storage {
            self.known.join(&std::mem::take(&mut self.pending));
            self.known.0.insert(workgroup, storage_epoch);
            self.released = Rc::new(self.known.clone());
        }
    }

    /// The value of a place is seen.
    pub(super) fn acquire(&mut self, releases: &Releases, place: AtomicPlace) {
        let Some(released) = releases.0.get(&place) else { return };
        if self.acquired.insert(place, released.version) != Some(released.version) {
            self.pending.join(&released.clock);
        }
    }

    /// A value is stored to a place; if it was made of the value before, with what that one was released with.
    pub(super) fn release(&self, releases: &mut Releases, place: AtomicPlace, continues: bool) {
        let released = releases.0.entry(place).or_default();
        if !continues {
            released.clock = Clock::default();
        }
        released.clock.join(&self.released);
        released.version += 1;
    }
}
