//! Loads, stores and atomic operations: checked against what is bound, noted, done.

use super::Machine;
use super::findings::{Site, Who};
use super::watch::Touch;
use super::workgroup::Workgroup;
use crate::program::{Change, Layout, Width};
use crate::report::{AccessKind, FindingKind};
use half::f16;

/// Places from here on are none: what an index out of bounds leads to. Loads give 0, stores are dropped, and only the
/// index is a finding.
pub(super) const NOWHERE: u32 = 0xc000_0000;

/// What stands for a value that is raced for: NaN, and no likely index.
const POISON: u32 = 0x7fc0_dead;

/// An access by an instruction.
#[derive(Clone, Copy)]
pub(super) struct AccessBy {
    pub(super) who: Who,
    pub(super) op: u32,
    pub(super) variable: u32,
}

impl Machine<'_> {
    /// Whether all the bytes are there; reports it if they are not.
    fn is_inside(&mut self, by: AccessBy, at: u32, len: usize, kind: AccessKind) -> bool {
        if at >= NOWHERE {
            return false;
        }
        let bound = self.windows[by.variable as usize].len;
        if at as usize + len <= bound {
            return true;
        }
        let site = Site { op: by.op, who: by.who, kind };
        let detail = || format!("{len} bytes at byte {at} of {bound}");
        self.findings.add(FindingKind::OutOfBounds, Some(by.variable), site, None, detail);
        false
    }

    fn bytes<'a>(&'a self, group: &'a Workgroup, variable: u32) -> &'a [u8] {
        let window = self.windows[variable as usize];
        let store = if window.is_workgroup { &group.stores[window.store] } else { &self.stores[window.store] };
        &store.bytes[window.offset..window.offset + window.len]
    }

    fn put(&mut self, group: &mut Workgroup, variable: u32, at: u32, bytes: &[u8]) {
        let window = self.windows[variable as usize];
        let stores = if window.is_workgroup { &mut group.stores } else { &mut self.stores };
        let place = &mut stores[window.store].bytes[window.offset + at as usize..][..bytes.len()];
        self.events += u64::from(place != bytes);
        place.copy_from_slice(bytes);
    }

    /// Loads words that follow each other.
    pub(super) fn load_words(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, to: &mut [u32]) {
        if !self.is_inside(by, at, 4 * to.len(), AccessKind::Read) {
            to.fill(0);
            return;
        }
        let first = at as usize;
        if self.poisoned.contains(&by.op) {
            for (i, word) in to.iter_mut().enumerate() {
                *word = self.load_scalar(group, by, at + 4 * i as u32, Width::Word);
            }
            return;
        }
        self.note(group, by.variable, (first, 4 * to.len()), Touch::Read, by.who, by.op);
        let bytes = &self.bytes(group, by.variable)[first..];
        for (word, bytes) in to.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }

    /// Loads one scalar.
    pub(super) fn load_scalar(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, width: Width) -> u32 {
        if !self.is_inside(by, at, width.bytes(), AccessKind::Read) {
            return 0;
        }
        let first = at as usize;
        let races = self.note(group, by.variable, (first, width.bytes()), Touch::Read, by.who, by.op);
        if races && self.poisoned.contains(&by.op) {
            return POISON;
        }
        let bytes = &self.bytes(group, by.variable)[first..];
        match width {
            Width::Word => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Width::Half => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits(),
            Width::Byte => bytes[0].into(),
        }
    }

    pub(super) fn load(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, layout: &Layout, to: &mut [u32]) {
        for (register, (offset, width)) in to.iter_mut().zip(layout) {
            *register = self.load_scalar(group, by, at.saturating_add(*offset), *width);
        }
    }

    pub(super) fn store_words(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, from: &[u32]) {
        if !self.is_inside(by, at, 4 * from.len(), AccessKind::Write) {
            return;
        }
        self.note(group, by.variable, (at as usize, 4 * from.len()), Touch::Write, by.who, by.op);
        for (i, word) in from.iter().enumerate() {
            self.put(group, by.variable, at + 4 * i as u32, &word.to_le_bytes());
        }
    }

    /// Stores one scalar.
    pub(super) fn store_scalar(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, width: Width, value: u32) {
        if !self.is_inside(by, at, width.bytes(), AccessKind::Write) {
            return;
        }
        self.note(group, by.variable, (at as usize, width.bytes()), Touch::Write, by.who, by.op);
        match width {
            Width::Word => self.put(group, by.variable, at, &value.to_le_bytes()),
            Width::Half => self.put(group, by.variable, at, &f16::from_f32(f32::from_bits(value)).to_le_bytes()),
            Width::Byte => self.put(group, by.variable, at, &[value as u8]),
        }
    }

    pub(super) fn store(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, layout: &Layout, from: &[u32]) {
        for (value, (offset, width)) in from.iter().zip(layout) {
            self.store_scalar(group, by, at.saturating_add(*offset), *width, *value);
        }
    }

    /// Looks at an atomic word.
    pub(super) fn atomic_load(&mut self, group: &mut Workgroup, by: AccessBy, at: u32) -> u32 {
        if !self.is_inside(by, at, 4, AccessKind::Atomic) {
            return 0;
        }
        self.note(group, by.variable, (at as usize, 4), Touch::AtomicRead, by.who, by.op);
        self.acquire(group, by.variable, at);
        self.atomic_word(group, by.variable, at)
    }

    pub(super) fn atomic_store(&mut self, group: &mut Workgroup, by: AccessBy, at: u32, value: u32) {
        if !self.is_inside(by, at, 4, AccessKind::Atomic) {
            return;
        }
        self.note(group, by.variable, (at as usize, 4), Touch::AtomicWrite, by.who, by.op);
        self.release(group, by.variable, at, false);
        self.put(group, by.variable, at, &value.to_le_bytes());
    }

    /// Changes an atomic word; what it was before.
    pub(super) fn atomic_change(
        &mut self,
        group: &mut Workgroup,
        by: AccessBy,
        at: u32,
        change: Change,
        (value, compare): (u32, u32),
    ) -> u32 {
        if !self.is_inside(by, at, 4, AccessKind::Atomic) {
            return 0;
        }
        let old = self.atomic_word(group, by.variable, at);
        // The first read of a word that nobody wrote is a finding, though the operation writes it too.
        self.note(group, by.variable, (at as usize, 4), Touch::AtomicRead, by.who, by.op);
        self.note(group, by.variable, (at as usize, 4), Touch::AtomicWrite, by.who, by.op);
        self.acquire(group, by.variable, at);
        self.release(group, by.variable, at, true);
        let (i, j) = (old as i32, value as i32);
        let new = match change {
            Change::Add => old.wrapping_add(value),
            Change::Subtract => old.wrapping_sub(value),
            Change::And => old & value,
            Change::Or => old | value,
            Change::Xor => old ^ value,
            Change::MinSigned => i.min(j) as u32,
            Change::MinUnsigned => old.min(value),
            Change::MaxSigned => i.max(j) as u32,
            Change::MaxUnsigned => old.max(value),
            Change::Exchange => value,
            Change::CompareExchange if old == compare => value,
            Change::CompareExchange => old,
        };
        self.put(group, by.variable, at, &new.to_le_bytes());
        old
    }

    fn atomic_word(&self, group: &Workgroup, variable: u32, at: u32) -> u32 {
        let bytes = &self.bytes(group, variable)[at as usize..];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn acquire(&mut self, group: &mut Workgroup, variable: u32, at: u32) {
        let window = self.windows[variable as usize];
        if !window.is_workgroup {
            group.knowledge.acquire(&self.releases, (window.store, window.offset + at as usize));
        }
    }

    fn release(&mut self, group: &Workgroup, variable: u32, at: u32, continues: bool) {
        let window = self.windows[variable as usize];
        if !window.is_workgroup {
            let place = (window.store, window.offset + at as usize);
            group.knowledge.release(&mut self.releases, place, continues);
        }
    }
}
