//! Memory and its shadow: for every cell the last write, and reads that a later write may race with.

use super::findings::Who;
use std::collections::HashMap;

/// An access as shadow memory keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) who: Who,
    /// The epoch of the address space in its workgroup; 0 if there was no access.
    pub(super) epoch: u32,
    /// Barriers of any kind that its workgroup had passed.
    pub(super) barriers: u32,
    /// Its instruction, with the highest bit set if that is atomic.
    pub(super) op: u32,
}

impl Mark {
    pub(super) const ATOMIC: u32 = 1 << 31;

    pub(super) fn is_there(&self) -> bool {
        self.epoch > 0
    }

    pub(super) fn is_atomic(&self) -> bool {
        self.op & Mark::ATOMIC != 0
    }
}

/// The shadow of some bytes that are always accessed together.
///
/// Of the reads of the last workgroup two suffice: any write conflicts with one of two readers. Readers of other
/// workgroups are in [`Store::readers`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) write: Mark,
    pub(super) reads: [Mark; 2],
}

/// A buffer, or a variable of a workgroup.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) bytes: Vec<u8>,
    /// Empty where nobody can write.
    pub(super) cells: Vec<Cell>,
    /// Bytes of a cell.
    pub(super) granule: usize,
    /// Of each byte, whether it was written before; `None` if all were.
    pub(super) written: Option<Vec<bool>>,
    /// Reads that gave way to those of another workgroup, by cell.
    pub(super) readers: HashMap<u32, Vec<Mark>>,
}

impl Store {
    /// Memory whose accesses are noted.
    pub(super) fn watched(bytes: Vec<u8>, written: Option<Vec<bool>>, granule: usize) -> Self {
        let cells = vec![Cell::default(); bytes.len().div_ceil(granule)];
        Store { bytes, cells, granule, written, readers: HashMap::new() }
    }

    /// Memory that is only read.
    pub(super) fn constant(bytes: Vec<u8>, written: Option<Vec<bool>>) -> Self {
        Store { bytes, written, granule: 4, ..Store::default() }
    }

    /// Whether a cell was written before it was watched.
    pub(super) fn was_written(&self, cell: usize) -> bool {
        let range = cell * self.granule..((cell + 1) * self.granule).min(self.bytes.len());
        self.written.as_ref().is_none_or(|written| written[range].iter().all(|byte| *byte))
    }

    /// Which bytes are written by now.
    pub(super) fn written_by_now(&mut self) -> Option<Vec<bool>> {
        let mut written = self.written.take()?;
        for (cell, _) in self.cells.iter().enumerate().filter(|(_, cell)| cell.write.is_there()) {
            let end = ((cell + 1) * self.granule).min(written.len());
            written[cell * self.granule..end].fill(true);
        }
        Some(written)
    }

    /// Keeps a read, and of those before what a later write may still race with.
    pub(super) fn keep_read(&mut self, cell: usize, mark: Mark) {
        let [last, other] = self.cells[cell].reads;
        let is_same_group = last.who.workgroup() == mark.who.workgroup();
        let reads = if !last.is_there() || (is_same_group && (last.who == mark.who || last.epoch < mark.epoch)) {
            // Whoever read in an epoch before is ordered before every write that this one is ordered before.
            let keeps = other.is_there() && is_same_group && other.epoch == mark.epoch;
            [mark, if keeps { other } else { Mark::default() }]
        } else if is_same_group {
            if other.who == mark.who { [last, mark] } else { [mark, last] }
        } else {
            let earlier = self.readers.entry(cell as u32).or_default();
            earlier.retain(|read| read.who.workgroup() != last.who.workgroup());
            earlier.extend([last, other].into_iter().filter(Mark::is_there));
            [mark, Mark::default()]
        };
        self.cells[cell].reads = reads;
    }
}
