//! The text of a file of speed heuristics: its devices, kernel files and rules.

use super::Devices;
use crate::wgsl::{Expression, Rule};
use std::collections::BTreeSet;

const NO_DEVICES: &str = "the first line says for which devices: 'devices: all' or 'devices: vendor 0xID, .., others'";
const NO_REASON: &str = "a rule needs its reason: 'EXPRESSION  // REASON'";

/// A file as it is read. Nothing is known of the kernels that it names.
pub(super) struct RuleFile<'t> {
    pub(super) devices: Devices,
    pub(super) blocks: Vec<Block<'t>>,
}

/// Rules, and the kernel files above them with their lines.
pub(super) struct Block<'t> {
    pub(super) kernels: Vec<(usize, &'t str)>,
    pub(super) rules: Vec<Rule>,
}

/// A rule whose reason has not come yet.
struct OpenRule {
    line: usize,
    text: String,
}

impl<'t> RuleFile<'t> {
    /// Reads a text, or says which line is wrong and why.
    pub(super) fn read(text: &'t str) -> Result<Self, (usize, String)> {
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim_end()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"));
        let (first, line) = lines.next().unwrap_or((1, ""));
        let devices = line.strip_prefix("devices:").and_then(Devices::read);
        let devices = devices.ok_or_else(|| (first, NO_DEVICES.to_owned()))?;

        let mut blocks: Vec<Block<'t>> = Vec::new();
        let mut open: Option<OpenRule> = None;
        for (number, line) in lines {
            if line.starts_with(char::is_whitespace) {
                let Some(block) = blocks.last_mut() else {
                    return Err((number, "the kernel files that a rule is about are above it".to_owned()));
                };
                let mut rule = open.take().unwrap_or(OpenRule { line: number, text: String::new() });
                match line.split_once("//") {
                    Some((end, reason)) => {
                        rule.push(end);
                        block.rules.push(rule.with_reason(reason.trim())?);
                    }
                    None => {
                        rule.push(line);
                        open = Some(rule);
                    }
                }
                continue;
            }
            if let Some(rule) = open {
                return Err((rule.line, NO_REASON.to_owned()));
            }
            match blocks.last_mut().filter(|block| block.rules.is_empty()) {
                Some(block) => block.kernels.push((number, line)),
                None => blocks.push(Block { kernels: vec![(number, line)], rules: Vec::new() }),
            }
        }
        if let Some(rule) = open {
            return Err((rule.line, NO_REASON.to_owned()));
        }
        let is_empty = |block: &&Block<'_>| block.rules.is_empty();
        match blocks.iter().find(is_empty).and_then(|block| block.kernels.last()) {
            Some((line, path)) => Err((*line, format!("there is no rule below {path}"))),
            None => Ok(RuleFile { devices, blocks }),
        }
    }
}

impl Devices {
    /// Reads what follows `devices:`.
    fn read(text: &str) -> Option<Devices> {
        if text.trim() == "all" {
            return Some(Devices::All);
        }
        let mut vendors = BTreeSet::new();
        let mut has_others = false;
        for word in text.split(',').map(str::trim) {
            match word.strip_prefix("vendor 0x") {
                Some(id) => drop(vendors.insert(u32::from_str_radix(id, 16).ok()?)),
                None if word == "others" => has_others = true,
                None => return None,
            }
        }
        Some(Devices::Family { vendors, has_others })
    }
}

impl OpenRule {
    fn push(&mut self, part: &str) {
        let part = part.trim();
        if !self.text.is_empty() && !part.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(part);
    }

    fn with_reason(self, reason: &str) -> Result<Rule, (usize, String)> {
        let OpenRule { line, text } = self;
        if reason.is_empty() {
            return Err((line, NO_REASON.to_owned()));
        }
        match Expression::parse(&text) {
            Some(expression) => Ok(Rule { line, text, expression, reason: reason.to_owned() }),
            None => Err((line, format!("cannot read this expression: '{text}'"))),
        }
    }
}
