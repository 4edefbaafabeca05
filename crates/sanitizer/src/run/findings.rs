//! Findings while a dispatch runs: one for each pair of places.

use crate::program::Program;
use crate::report::{Access, AccessKind, Finding, FindingKind};
use std::collections::HashMap;

/// Invocations that a workgroup may have: what [`Who`] has room for.
pub(crate) const MAX_INVOCATIONS: u32 = 1 << 11;

/// Workgroups that a dispatch may have.
pub(crate) const MAX_WORKGROUPS: u32 = 1 << 20;

/// An invocation, or a subgroup that does something together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Who(u32);

impl Who {
    const TOGETHER: u32 = MAX_INVOCATIONS;

    pub(crate) fn invocation(workgroup: u32, invocation: u32) -> Self {
        Who(workgroup * 2 * MAX_INVOCATIONS + invocation)
    }

    /// The subgroup whose first invocation that is.
    pub(crate) fn together(workgroup: u32, first: u32) -> Self {
        Who(workgroup * 2 * MAX_INVOCATIONS + Who::TOGETHER + first)
    }

    pub(crate) fn is_together(self) -> bool {
        self.0 & Who::TOGETHER != 0
    }

    pub(crate) fn workgroup(self) -> u32 {
        self.0 / (2 * MAX_INVOCATIONS)
    }

    pub(crate) fn number(self) -> u32 {
        self.0 % MAX_INVOCATIONS
    }
}

/// An access by its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) op: u32,
    pub(crate) who: Who,
    pub(crate) kind: AccessKind,
}

/// What a comment allows where races of any kind are allowed if their value is dropped.
const DROPPED_RACE: &str = "dropped-race";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: FindingKind,
    first: (u32, AccessKind),
    second: Option<(u32, AccessKind)>,
    variable: Option<u32>,
}

/// What is known of one of them.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: FindingKind,
    pub(crate) first: Site,
    pub(crate) second: Option<Site>,
    variable: Option<u32>,
    detail: String,
    count: u64,
}

/// Findings so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(HashMap<Key, Found>);

impl Findings {
    pub(crate) fn add(
        &mut self,
        kind: FindingKind,
        variable: Option<u32>,
        first: Site,
        second: Option<Site>,
        detail: impl FnOnce() -> String,
    ) {
        let place = |site: Site| (site.op, site.kind);
        let key = Key { kind, first: place(first), second: second.map(place), variable };
        let found = self.0.entry(key).or_insert_with(|| {
            let detail = detail();
            Found { kind, first, second, variable, detail, count: 0 }
        });
        found.count += 1;
    }

    /// Takes in what another order has found.
    pub(crate) fn merge(&mut self, other: Findings) {
        for (key, found) in other.0 {
            match self.0.get_mut(&key) {
                Some(known) => known.count += found.count,
                None => drop(self.0.insert(key, found)),
            }
        }
    }

    /// Whether all findings of another run are among these.
    pub(crate) fn covers(&self, other: &Findings) -> bool {
        other.0.keys().all(|key| self.0.contains_key(key))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Found> {
        self.0.values()
    }

    /// The findings as reports have them, by kind and line. `is_dropped` says of races whether the value is.
    pub(crate) fn reported(
        &self,
        program: &Program,
        source: &str,
        is_dropped: impl Fn(&Found) -> Option<bool>,
    ) -> Vec<Finding> {
        let lines: Vec<&str> = source.lines().collect();
        let reported = |found: &Found| found.reported(program, source, &lines, is_dropped(found));
        let mut all: Vec<Finding> = self.0.values().map(reported).collect();
        let place = |access: &Access| (access.line, access.column);
        all.sort_by_key(|f| (f.kind, place(&f.first), f.second.as_ref().map(place), f.variable.clone()));
        all
    }
}

impl Found {
    fn reported(&self, program: &Program, source: &str, lines: &[&str], is_dropped: Option<bool>) -> Finding {
        let first = access(program, source, lines, self.first);
        let second = self.second.map(|site| access(program, source, lines, site));
        let numbers = [Some(first.line), second.as_ref().map(|access| access.line)];
        let allowed = numbers.into_iter().flatten().find_map(|line| allowance(lines, line, self.kind, is_dropped));
        Finding {
            kind: self.kind,
            variable: self.variable.map(|v| program.variables[v as usize].name.clone()),
            first,
            second,
            detail: self.detail.clone(),
            count: self.count,
            is_value_dropped: is_dropped,
            allowed,
        }
    }
}

fn access(program: &Program, source: &str, lines: &[&str], site: Site) -> Access {
    let span = program.spans.get(site.op as usize).copied().unwrap_or_default();
    let function = program.functions.get(site.op as usize).map(|f| program.function_names[*f as usize].clone());
    let (line, column) = if span.is_defined() {
        let location = span.location(source);
        (location.line_number, location.line_position)
    } else {
        (0, 0)
    };
    let text = lines.get((line as usize).wrapping_sub(1)).map_or("", |line| line.trim()).to_owned();
    let (invocation, workgroup) = (site.who.number(), site.who.workgroup());
    Access { kind: site.kind, line, column, function: function.unwrap_or_default(), text, invocation, workgroup }
}

/// Why a comment at a line, or alone on the line above, allows findings of a kind there:
/// `// sanitizer: allow KIND: REASON`. `dropped-race` allows races whose value is dropped.
fn allowance(lines: &[&str], line: u32, kind: FindingKind, is_dropped: Option<bool>) -> Option<String> {
    let at = (line as usize).checked_sub(1)?;
    let above = at.checked_sub(1).and_then(|above| lines.get(above)).filter(|line| line.trim().starts_with("//"));
    [lines.get(at), above].into_iter().flatten().find_map(|text| {
        let (_, directive) = text.split_once("// sanitizer: allow ")?;
        let (name, reason) = directive.split_once(':')?;
        let is_meant = name == kind.name() || (name == DROPPED_RACE && is_dropped == Some(true));
        is_meant.then(|| reason.trim().to_owned())
    })
}
