//! Happens-before: compares each access with those before it.

use super::Machine;
use super::clock::Knowledge;
use super::findings::{Site, Who};
use super::store::{Mark, Store};
use super::workgroup::Workgroup;
use crate::report::{AccessKind, FindingKind};

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
}

impl Touch {
    fn writes(self) -> bool {
        matches!(self, Touch::Write | Touch::AtomicWrite)
    }

    fn is_atomic(self) -> bool {
        matches!(self, Touch::AtomicRead | Touch::AtomicWrite)
    }

    fn kind(self) -> AccessKind {
        match self {
            Touch::Read => AccessKind::Read,
            Touch::Write => AccessKind::Write,
            Touch::AtomicRead | Touch::AtomicWrite => AccessKind::Atomic,
        }
    }
}

/// Where in its workgroup's order an access is.
struct Moment<'k> {
    who: Who,
    epoch: u32,
    barriers: u32,
    /// Of a variable that workgroups share.
    knowledge: Option<&'k Knowledge>,
    is_coherent: bool,
}

impl Moment<'_> {
    /// What is wrong between an access and this one, if anything. `reads_matrix`: a matrix of a subgroup is read, whose
    /// elements other invocations may have written than those that get them.
    fn conflict(&self, before: &Mark, reads_matrix: bool) -> Option<FindingKind> {
        if before.who == self.who && !(reads_matrix && before.epoch == self.epoch) {
            return None;
        }
        let earlier = before.who.workgroup();
        if let Some(knowledge) = self.knowledge.filter(|_| earlier != self.who.workgroup()) {
            let clock = if self.is_coherent { &knowledge.seen } else { &knowledge.known };
            let is_known = clock.has(earlier, before.epoch) || knowledge.known.has(earlier, before.epoch);
            return (!is_known).then_some(FindingKind::Race);
        }
        match before.epoch < self.epoch {
            true => None,
            false if before.barriers < self.barriers => Some(FindingKind::WrongBarrier),
            false => Some(FindingKind::Race),
        }
    }
}

/// A conflict that was found.
struct Conflict {
    kind: FindingKind,
    before: Mark,
    before_writes: bool,
    cell: usize,
}

impl Machine<'_> {
    /// Notes an access of bytes of a variable; whether it races.
    pub(super) fn note(
        &mut self,
        group: &mut Workgroup,
        variable: u32,
        (at, len): (usize, usize),
        touch: Touch,
        who: Who,
        op: u32,
    ) -> bool {
        let window = self.windows[variable as usize];
        let (store, moment) = match window.is_workgroup {
            true => {
                let (epoch, barriers) = (group.workgroup_epoch, group.barriers);
                let moment = Moment { who, epoch, barriers, knowledge: None, is_coherent: false };
                (&mut group.stores[window.store], moment)
            }
            false => {
                let (epoch, barriers, is_coherent) = (group.storage_epoch, group.barriers, window.is_coherent);
                let moment = Moment { who, epoch, barriers, knowledge: Some(&group.knowledge), is_coherent };
                (&mut self.stores[window.store], moment)
            }
        };
        let at = at + window.offset;
        let site = Site { op, who, kind: touch.kind() };
        if store.cells.is_empty() {
            if store.written.is_some() && !touch.writes() && !store.was_written(at / store.granule) {
                let detail = || format!("byte {at}");
                self.findings.add(FindingKind::UnwrittenStorage, Some(variable), site, None, detail);
            }
            return false;
        }
        let mark = Mark { who, epoch: moment.epoch, barriers: moment.barriers, op: op | atomic_bit(touch) };
        let mut races = false;
        for cell in at / store.granule..(at + len).div_ceil(store.granule) {
            let shadow = store.cells[cell];
            if !shadow.write.is_there() && !touch.writes() && !store.was_written(cell) {
                let kind = match window.is_workgroup {
                    true => FindingKind::UnwrittenWorkgroup,
                    false => FindingKind::UnwrittenStorage,
                };
                let byte = cell * store.granule - window.offset.min(cell * store.granule);
                self.findings.add(kind, Some(variable), site, None, || format!("byte {byte}"));
            }
            if let Some(found) = conflict(store, cell, &moment, touch) {
                races = true;
                let first = Site {
                    op: found.before.op & !Mark::ATOMIC,
                    who: found.before.who,
                    kind: match (found.before.is_atomic(), found.before_writes) {
                        (true, _) => AccessKind::Atomic,
                        (false, true) => AccessKind::Write,
                        (false, false) => AccessKind::Read,
                    },
                };
                let byte = (found.cell * store.granule).saturating_sub(window.offset);
                let detail = || format!("byte {byte}");
                self.findings.add(found.kind, Some(variable), first, Some(site), detail);
            }
            match touch {
                Touch::Write | Touch::AtomicWrite => store.cells[cell].write = mark,
                Touch::Read | Touch::AtomicRead => store.keep_read(cell, mark),
            }
        }
        races
    }
}

fn atomic_bit(touch: Touch) -> u32 {
    if touch.is_atomic() { Mark::ATOMIC } else { 0 }
}

/// What an access of a cell conflicts with.
fn conflict(store: &Store, cell: usize, moment: &Moment<'_>, touch: Touch) -> Option<Conflict> {
    let shadow = &store.cells[cell];
    let both_atomic = |before: &Mark| touch.is_atomic() && before.is_atomic();
    let reads_matrix = moment.who.is_together() && touch == Touch::Read;
    if shadow.write.is_there()
        && !both_atomic(&shadow.write)
        && let Some(kind) = moment.conflict(&shadow.write, reads_matrix)
    {
        return Some(Conflict { kind, before: shadow.write, before_writes: true, cell });
    }
    if !touch.writes() {
        return None;
    }
    let other_groups = store.readers.get(&(cell as u32)).into_iter().flatten();
    shadow.reads.iter().chain(other_groups).filter(|read| read.is_there() && !both_atomic(read)).find_map(|read| {
        let kind = moment.conflict(read, false)?;
        Some(Conflict { kind, before: *read, before_writes: false, cell })
    })
}
