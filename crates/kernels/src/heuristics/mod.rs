//! Speed heuristics: which legal configurations are not worth a try. They are measured, not proved, so kernels do not
//! have them: they come as text from whoever makes a catalogue ([`crate::Catalogue::with_heuristics`]).
//!
//! ```text
//! // A comment.
//! devices: vendor 0x10de, others
//!
//! ops/matmul/gemv_dequant
//! ops/project/gemv_dequant
//!     TOKENS <= up_to_rows     // more tokens per workgroup than there are
//! ```
//!
//! A rule is indented: an expression as kernel files write them, and its reason. An expression of several lines ends
//! with the line that has the reason. Where it is false, a configuration is *pruned*: nothing tries it unless it is
//! asked for by name or by an exhaustive sweep. Rules are about the kernel files above them, and about every kernel
//! that such a file is part of. A rule without a value, as where it divides by 0, prunes nothing.
//!
//! The first line names the devices of a file. `all` is for any device. A list of vendors makes a *family*: its rules
//! are for the devices of these vendors only. `others` adds the devices whose vendor no file names.

mod file;

use crate::wgsl::Rule;
use crate::{Catalogue, Instance, Limits};
use file::{Block, RuleFile};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A file of speed heuristics.
#[derive(Clone, Copy, Debug)]
pub struct HeuristicsText<'a> {
    /// What errors and refusals call it.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What is wrong with a file of speed heuristics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct HeuristicsError {
    /// The file's name.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// Speed heuristics as they were read.
#[derive(Clone, Debug, Default)]
pub struct Heuristics {
    /// By the kernel file that they are about.
    of_kernels: HashMap<Arc<str>, Vec<Arc<Heuristic>>>,
    /// The vendors that have a family.
    vendors: BTreeSet<u32>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Heuristic {
    /// The file that it is in.
    pub(crate) file: Arc<str>,
    pub(crate) rule: Rule,
    devices: Devices,
}

/// The devices that a file is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Devices {
    All,
    Family {
        vendors: BTreeSet<u32>,
        /// Whether devices whose vendor has no family belong to it.
        has_others: bool,
    },
}

impl Heuristics {
    /// Reads files of rules about the kernels of a catalogue.
    ///
    /// # Errors
    /// A line that is no rule, or a rule about a kernel or a name that there is not.
    pub fn read(files: &[HeuristicsText<'_>], catalogue: &Catalogue) -> Result<Self, HeuristicsError> {
        let mut all = Heuristics::default();
        for HeuristicsText { name, text } in files {
            let file: Arc<str> = Arc::from(*name);
            let at = |(line, why): (usize, String)| HeuristicsError { file: Arc::clone(&file), line, why };
            let RuleFile { devices, blocks } = RuleFile::read(text).map_err(at)?;
            for block in blocks {
                let kernels = kernels(&block, catalogue).map_err(at)?;
                for rule in block.rules {
                    all.add(&kernels, Heuristic { file: Arc::clone(&file), rule, devices: devices.clone() });
                }
            }
            all.vendors.extend(devices.vendors());
        }
        Ok(all)
    }

    fn add(&mut self, kernels: &[Arc<str>], heuristic: Heuristic) {
        let heuristic = Arc::new(heuristic);
        for path in kernels {
            self.of_kernels.entry(Arc::clone(path)).or_default().push(Arc::clone(&heuristic));
        }
    }

    /// The rules about a kernel file on a device of that vendor.
    pub(crate) fn about(&self, path: &str, vendor: u32) -> impl Iterator<Item = &Heuristic> {
        let has_family = self.vendors.contains(&vendor);
        let rules = self.of_kernels.get(path).into_iter().flatten().map(Arc::as_ref);
        rules.filter(move |heuristic| heuristic.devices.include(vendor, has_family))
    }
}

impl Devices {
    fn vendors(&self) -> impl Iterator<Item = u32> {
        let vendors = match self {
            Devices::All => None,
            Devices::Family { vendors, .. } => Some(vendors),
        };
        vendors.into_iter().flatten().copied()
    }

    /// Whether a device is one of them. `has_family` says whether any file names its vendor.
    fn include(&self, vendor: u32, has_family: bool) -> bool {
        match self {
            Devices::All => true,
            Devices::Family { vendors, has_others } => vendors.contains(&vendor) || (*has_others && !has_family),
        }
    }
}

/// The kernel files of a block, which know every name of its rules.
fn kernels(block: &Block<'_>, catalogue: &Catalogue) -> Result<Vec<Arc<str>>, (usize, String)> {
    let library = catalogue.library();
    let mut kernels = Vec::new();
    for (line, path) in &block.kernels {
        let missing = || (*line, format!("there is no kernel file '{path}.wgsl'"));
        let path = library.path(path).ok_or_else(missing)?;
        for rule in &block.rules {
            let is_known = |name: &str| Instance::is_fact(name) || Limits::is_name(name) || library.defines(path, name);
            if let Some(name) = rule.expression.names().into_iter().find(|name| !is_known(name)) {
                return Err((rule.line, format!("{path}.wgsl has no constant '{name}', and no op or device has it")));
            }
        }
        kernels.push(Arc::clone(path));
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VENDOR: u32 = 0x10de;

    fn read(texts: &[&str]) -> Result<Heuristics, HeuristicsError> {
        let named: Vec<(String, &str)> =
            texts.iter().enumerate().map(|(i, text)| (format!("{i}.txt"), *text)).collect();
        let files: Vec<_> = named.iter().map(|(name, text)| HeuristicsText { name, text }).collect();
        Heuristics::read(&files, &Catalogue::embedded())
    }

    #[test]
    fn a_family_replaces_the_rules_of_others_for_its_vendors() {
        let all = "devices: all\nops/matmul/gemm_tiled\n    up_to_rows >= 16  // empty\n";
        let first = "devices: vendor 0x10de, others\nops/matmul/gemm_tiled\n    m > 1u  // narrow\n";
        let second = "devices: vendor 0x1002, vendor 0x1022\nops/matmul/gemm_tiled\n    m > 2u  // narrow\n";
        let reasons = |heuristics: &Heuristics, vendor| -> Vec<String> {
            heuristics.about("ops/matmul/gemm_tiled", vendor).map(|one| one.rule.text.clone()).collect()
        };
        let alone = read(&[all, first]).unwrap();
        for vendor in [VENDOR, 0x1002, 0] {
            assert_eq!(reasons(&alone, vendor), ["up_to_rows >= 16", "m > 1u"], "{vendor:#x}");
        }
        let both = read(&[all, first, second]).unwrap();
        assert_eq!(reasons(&both, 0x1022), ["up_to_rows >= 16", "m > 2u"]);
        assert_eq!(reasons(&both, VENDOR), reasons(&alone, VENDOR));
        assert_eq!(reasons(&both, 0), reasons(&alone, 0));
    }

    #[test]
    fn rules_are_about_every_file_above_them() {
        let text = "// Head.\ndevices: all\n\nops/matmul/gemv_dequant\nlib/segment_table/uniform\n\n    rows\n        > 1u\n    \
                    // one row\n    storage_buffers <= 8u   // room\nops/matmul/naive\n    k > 1u  // short\n";
        let heuristics = read(&[text]).unwrap();
        let of = |path: &str| -> Vec<(usize, String, String)> {
            let rules = heuristics.about(path, VENDOR).map(|one| &one.rule);
            rules.map(|rule| (rule.line, rule.text.clone(), rule.reason.clone())).collect()
        };
        let both = [(7, "rows > 1u".into(), "one row".into()), (10, "storage_buffers <= 8u".into(), "room".into())];
        assert_eq!((of("ops/matmul/gemv_dequant"), of("lib/segment_table/uniform")), (both.to_vec(), both.to_vec()));
        assert_eq!(of("ops/matmul/naive"), [(12, "k > 1u".into(), "short".into())]);
    }

    #[test]
    fn a_wrong_rule_is_named_with_its_file_and_line() {
        let matmul = |rules: &str| format!("devices: all\nops/matmul/gemv_dequant\n{rules}");
        for (text, line, why) in [
            (String::new(), 1, "devices:"),
            ("ops/matmul/gemv_dequant\n    rows > 1u  // one\n".to_owned(), 1, "devices:"),
            ("devices: everything\n".to_owned(), 1, "devices:"),
            ("devices: vendor 10de\n".to_owned(), 1, "devices:"),
            ("devices: all\n    rows > 1u  // one\n".to_owned(), 2, "above"),
            (
                "devices: all\nops/matmul/gemv_none\n    rows > 1u  // one\n".to_owned(),
                2,
                "'ops/matmul/gemv_none.wgsl'",
            ),
            ("devices: all\nops/none/naive\n    rows > 1u  // one\n".to_owned(), 2, "'ops/none/naive.wgsl'"),
            (matmul(""), 2, "no rule"),
            (matmul("    TOKENS <= up_to_rows  // few\n    TOKNES <= up_to_rows  // few\n"), 4, "'TOKNES'"),
            (matmul("    TOKENS <= up_to_row  // few\n"), 3, "'up_to_row'"),
            (matmul("    TOKENS <  // few\n"), 3, "expression"),
            (matmul("    TOKENS < rows  few  // few\n"), 3, "expression"),
            (matmul("    TOKENS < rows  //\n"), 3, "reason"),
            (matmul("    TOKENS < rows\n"), 3, "reason"),
            (matmul("    TOKENS < rows\nops/matmul/naive\n    rows > 1u // one\n"), 3, "reason"),
        ] {
            let error = read(&["devices: all\n", &text]).unwrap_err();
            assert_eq!((&*error.file, error.line), ("1.txt", line), "{text}: {error}");
            assert!(error.to_string().starts_with(&format!("1.txt:{line}: ")) && error.why.contains(why), "{error}");
        }
    }

    #[test]
    fn names_of_imports_are_those_of_the_operand() {
        let rule = |name: &str| read(&[&format!("devices: all\nops/project/gemv_subgroup\n    {name} > 3u  // one\n")]);
        assert!(rule("w_r_format").is_ok() && rule("weight_format").is_err() && rule("w_format").is_err());
    }
}
