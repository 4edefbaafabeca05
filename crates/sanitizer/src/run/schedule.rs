//! Which workgroup takes a turn, and whether a wait will ever end.

use super::Machine;
use super::findings::{Site, Who};
use super::workgroup::{State, Turn, Workgroup};
use crate::dispatch::Order;
use crate::error::SanitizerError;
use crate::report::{AccessKind, FindingKind};

/// Workgroups that a random order interleaves even if none waits.
const INTERLEAVED: u32 = 3;

/// Rounds in which nothing happens until a wait counts as endless: one that reads plain memory has seen what it waits
/// for a round before it leaves its loop.
const QUIET_ROUNDS: u32 = 4;

impl Machine<'_> {
    /// Runs all workgroups; whether all ended.
    pub(super) fn schedule(&mut self, resident: u32) -> Result<bool, SanitizerError> {
        let total = self.grid.iter().product::<u32>() as usize;
        let mut waiting: Vec<u32> = self.permuted(total).into_iter().map(|n| n as u32).rev().collect();
        let is_random = matches!(self.order, Order::Random { .. });
        let at_first = if is_random { INTERLEAVED.min(resident) } else { 1 };
        let mut running: Vec<Workgroup> = Vec::new();
        let mut quiet_rounds = 0;
        loop {
            while running.len() < at_first as usize
                && let Some(number) = waiting.pop()
            {
                running.push(Workgroup::new(self, number));
            }
            if running.is_empty() {
                return Ok(true);
            }
            let before = self.events;
            let mut has_ended = false;
            for place in self.permuted(running.len()) {
                let group = &mut running[place];
                loop {
                    match self.turn(group)? {
                        Turn::Passed if !is_random => {}
                        Turn::Ended => {
                            has_ended = true;
                            group.invocations.clear();
                            break;
                        }
                        Turn::Passed | Turn::Waits => break,
                    }
                }
            }
            running.retain(|group| !group.invocations.is_empty());
            quiet_rounds = if self.events > before || has_ended { 0 } else { quiet_rounds + 1 };
            if quiet_rounds < QUIET_ROUNDS {
                continue;
            }
            // All that runs waits for what nobody who runs will do.
            match waiting.pop() {
                Some(number) if running.len() < resident as usize => {
                    quiet_rounds = 0;
                    running.push(Workgroup::new(self, number));
                }
                _ => {
                    self.endless(&running, resident);
                    return Ok(false);
                }
            }
        }
    }

    fn endless(&mut self, running: &[Workgroup], resident: u32) {
        for group in running {
            let Some(waits) = group.invocations.iter().find(|i| i.state == State::Ready) else { continue };
            let who = Who::invocation(group.number, waits.number);
            let site = Site { op: waits.looked_at, who, kind: AccessKind::Atomic };
            let total = self.grid.iter().product::<u32>();
            let detail = || format!("{} of {total} workgroups may be resident", resident.min(total));
            self.findings.add(FindingKind::EndlessWait, None, site, None, detail);
        }
    }

    /// The numbers below `len`, in the order of turns.
    pub(super) fn permuted(&mut self, len: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        match self.order {
            Order::Forward => {}
            Order::Backward => all.reverse(),
            Order::Random { .. } => self.random.shuffle(&mut all),
        }
        all
    }
}
