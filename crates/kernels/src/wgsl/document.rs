//! One file as it is read: its directives, and its lines.

use super::TextError;
use super::expression::Expression;
use super::lex::{Token, code, tokens};
use super::misspelt::misspelt;
use super::requires::{Required, required};
use super::seen;
use crate::{Feature, Precision, StateFormat};
use std::sync::Arc;
use wgoose_graph::Format;

/// What a comment at the head of a file may say.
pub(super) const DIRECTIVES: [&str; 10] =
    ["idea", "needs", "requires", "grid", "partials", "default", "plan-only", "precision", "sums", "seen"];

/// Those of them that say nothing of the kernels that a file makes.
const OF_NO_KERNEL: [&str; 5] = ["idea", "requires", "default", "plan-only", "seen"];

/// What a comment behind code says that changes the code.
const BEHIND_CODE: [&str; 5] = ["tune:", "op:", "device:", "same-buffer:", "unroll"];

/// Most configurations of one kernel: all of them are listed.
const MOST_CONFIGURATIONS: usize = 1 << 16;

/// What stands in for an operand that an op lacks.
pub(crate) const ABSENT: &str = "lib/absent";

/// The readers of the WKV state, in the format that a plan gives it.
const STATE: &str = "lib/state/*";

/// A file's directives and lines.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: Arc<str>,
    /// One sentence for people.
    pub(crate) idea: Option<String>,
    /// Device features by name.
    pub(crate) needs: Vec<Feature>,
    /// Names that whoever imports it must define.
    pub(crate) requires: Vec<Required>,
    /// Workgroups.
    pub(crate) grid: Option<Rule>,
    /// Values that workgroups hand to one another.
    pub(crate) partials: Option<Rule>,
    /// Place among an op's defaults: `(op, place)`, or for any op of the folder.
    pub(crate) places: Vec<(Option<String>, u32)>,
    /// Why nothing that it is part of is tried without a plan.
    pub(crate) plan_only: Option<String>,
    /// What activations are rounded to.
    pub(crate) precision: Option<Precision>,
    /// How its sums are added up, the same for any tile.
    pub(crate) sums: Option<String>,
    pub(crate) imports: Vec<Import>,
    /// Names of its constants.
    constants: Vec<String>,
    /// What a plan may choose, in the order of declaration.
    pub(crate) tunables: Vec<Declared>,
    /// Whether it is about one operand: it is renamed where it is imported.
    pub(crate) is_of_operand: bool,
    /// Every line, directives included.
    pub(crate) lines: Vec<String>,
}

/// An expression with its reason.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) expression: Expression,
    pub(crate) reason: String,
}

/// An import line.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// As it is written; a last part `*` stands for the operand's format.
    pub(crate) path: String,
    /// The operand that the file is renamed to.
    pub(crate) operand: Option<String>,
    /// Where that is bound.
    pub(crate) binding: Option<u32>,
    /// Last parts of the path that a plan may choose among.
    pub(crate) choices: Vec<String>,
}

/// A tunable as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// As they are written.
    pub(crate) choices: Vec<String>,
    pub(crate) default: usize,
    /// Whether it chooses among files.
    pub(crate) is_import: bool,
}

/// A `const` or `alias` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constant<'a> {
    pub(crate) name: &'a str,
    /// Everything before the literal.
    head: &'a str,
    pub(crate) literal: &'a str,
    pub(crate) marker: Marker<'a>,
}

/// Who sets a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marker<'a> {
    /// It is fixed.
    None,
    /// The plan, among these choices.
    Tune(Vec<&'a str>),
    /// The op: the size or attribute of that name.
    Op(&'a str),
    /// The device: the limit of that name.
    Device(&'a str),
}

/// Reads a line as a module-scope constant.
pub(crate) fn constant(line: &str) -> Option<Constant<'_>> {
    let (code, comment) = line.split_once("//").unwrap_or((line, ""));
    let keyword = ["const ", "alias "].into_iter().find(|keyword| code.starts_with(keyword))?;
    let (head, rest) = code.split_once('=')?;
    let (literal, _) = rest.split_once(';')?;
    let name = head[keyword.len()..].split(':').next()?.trim();
    let comment = comment.trim();
    let marker = match comment.split_once(':') {
        Some(("tune", choices)) => Marker::Tune(choices.split_whitespace().collect()),
        Some(("op", name)) => Marker::Op(name.split_whitespace().next().unwrap_or_default()),
        Some(("device", name)) => Marker::Device(name.split_whitespace().next().unwrap_or_default()),
        _ => Marker::None,
    };
    Some(Constant { name, head, literal: literal.trim(), marker })
}

impl Constant<'_> {
    /// Whether it is a number.
    pub(crate) fn is_number(&self) -> bool {
        self.head.contains(": u32")
    }

    /// The line with another value.
    pub(crate) fn with(&self, value: &str) -> String {
        let is_literal = value.bytes().all(|b| b.is_ascii_digit());
        format!("{}= {value}{};", self.head, if self.is_number() && is_literal { "u" } else { "" })
    }

    /// The place of its literal among the choices of a plan.
    fn default(&self, choices: &[&str]) -> Option<usize> {
        let literal = if self.is_number() { self.literal.trim_end_matches('u') } else { self.literal };
        choices.iter().position(|choice| *choice == literal)
    }
}

/// The rule of a `const_assert` line, whose comment is the reason.
pub(crate) fn const_assert(line: &str) -> Option<Result<(Expression, &str), &'static str>> {
    let rest = line.trim_start().strip_prefix("const_assert")?;
    let Some((expression, comment)) = rest.split_once(';') else {
        return Some(Err("a const_assert must end on its line"));
    };
    let reason = comment.trim().strip_prefix("//").map(str::trim).filter(|reason| !reason.is_empty());
    Some(match (Expression::parse(expression), reason) {
        (Some(expression), Some(reason)) => Ok((expression, reason)),
        (None, _) => Err("cannot read this const_assert: it may compare numbers and constants"),
        (_, None) => Err("a const_assert needs a comment with its reason"),
    })
}

/// The code of a line, and its comment where that decides something.
fn substance(line: &str) -> (&str, &str) {
    let code = code(line);
    let comment = line[code.len()..].trim_start().strip_prefix("//").unwrap_or_default();
    let decides = match code.is_empty() {
        true => comment
            .strip_prefix(' ')
            .and_then(|comment| comment.split_once(':'))
            .is_some_and(|(name, _)| DIRECTIVES.contains(&name) && !OF_NO_KERNEL.contains(&name)),
        false => BEHIND_CODE.iter().any(|word| comment.trim_start().starts_with(word)),
    };
    (code.trim_start(), if decides { comment.trim() } else { "" })
}

impl Document {
    /// Reads a file.
    pub(crate) fn read(path: &Arc<str>, text: &str) -> Result<Document, TextError> {
        let mut document = Document {
            path: Arc::clone(path),
            idea: None,
            needs: Vec::new(),
            requires: Vec::new(),
            grid: None,
            partials: None,
            places: Vec::new(),
            plan_only: None,
            precision: None,
            sums: None,
            imports: Vec::new(),
            constants: Vec::new(),
            tunables: Vec::new(),
            is_of_operand: false,
            lines: text.lines().map(str::to_owned).collect(),
        };
        let mut is_head = true;
        for (i, line) in text.lines().enumerate() {
            is_head &= line.trim_start().starts_with("//");
            document.line(i + 1, line, is_head).map_err(|why| TextError::at(path, i + 1, why))?;
        }
        Ok(document)
    }

    /// Whether it defines a constant of that name where it is renamed to an operand.
    pub(crate) fn defines(&self, name: &str, operand: Option<&str>) -> bool {
        let is_called = |constant: &String| match (operand, constant.strip_prefix("weight")) {
            (Some(operand), Some(rest)) if rest.is_empty() || rest.starts_with('_') => {
                name.strip_prefix(operand) == Some(rest)
            }
            _ => constant == name,
        };
        self.constants.iter().any(is_called)
    }

    /// What decides which kernels a file makes, line by line as `(code, comment)`: no prose, no blank lines, and no
    /// directive about its idea and place.
    pub(crate) fn substance(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|line| substance(line)).filter(|line| *line != ("", ""))
    }

    /// Adds [`Document::substance`] to a hash.
    pub(crate) fn hash(&self, hasher: &mut blake3::Hasher) {
        for (code, comment) in self.substance() {
            hasher.update(code.as_bytes()).update(b"//").update(comment.as_bytes()).update(b"\n");
        }
    }

    fn line(&mut self, number: usize, line: &str, is_head: bool) -> Result<(), String> {
        let constant = constant(line);
        let is_marked = line.starts_with("#import ") || constant.is_some();
        if let Some(why) = misspelt(line, is_head, is_marked) {
            return Err(why);
        }
        if let Some(comment) = line.strip_prefix("// ") {
            return self.directive(number, comment, is_head);
        }
        if let Some(import) = line.strip_prefix("#import ") {
            let import =
                Import::read(number, import).ok_or("cannot read this import: '#import PATH [as ID [binding N]]'")?;
            if !import.choices.is_empty() {
                let default = import.choices.iter().position(|c| import.path == import.with_last(c));
                let default = default.ok_or("the file that is imported is not among the choices")?;
                let name = import.tunable().ok_or("a tuned import has a path of several parts")?.to_owned();
                self.tunable(Declared { name, choices: import.choices.clone(), default, is_import: true })?;
            }
            self.imports.push(import);
            return Ok(());
        }
        if let Some(rule) = const_assert(line) {
            rule?;
            return Ok(());
        }
        if let Some(constant) = constant {
            self.constants.push(constant.name.to_owned());
            if let Marker::Tune(choices) = &constant.marker {
                let default = constant.default(choices).ok_or("the value that is written is not among the choices")?;
                let name = constant.name.to_owned();
                let choices = choices.iter().map(|c| (*c).to_owned()).collect();
                self.tunable(Declared { name, choices, default, is_import: false })?;
            }
        }
        let is_template =
            |t: &Token<'_>| matches!(t, Token::Name(name) if *name == "weight" || name.starts_with("weight_"));
        self.is_of_operand |= tokens(line).iter().any(is_template);
        Ok(())
    }

    fn tunable(&mut self, declared: Declared) -> Result<(), String> {
        let twice = |choices: &[String]| choices.iter().enumerate().any(|(i, c)| choices[..i].contains(c));
        if self.tunables.iter().any(|t| t.name == declared.name) {
            return Err(format!("there is a tunable {} already", declared.name));
        }
        if twice(&declared.choices) || declared.choices.len() > usize::from(u8::MAX) {
            return Err("a choice stands twice, or there are too many".to_owned());
        }
        self.tunables.push(declared);
        let configurations = self.tunables.iter().try_fold(1usize, |n, t| n.checked_mul(t.choices.len()));
        match configurations {
            Some(n) if n <= MOST_CONFIGURATIONS => Ok(()),
            _ => Err(format!("its tunables have more than {MOST_CONFIGURATIONS} configurations")),
        }
    }

    fn directive(&mut self, line: usize, comment: &str, is_head: bool) -> Result<(), String> {
        let Some((name, value)) = comment.split_once(':') else { return Ok(()) };
        let value = value.trim();
        let rule = |what: &str| {
            let (expression, reason) =
                Expression::parse_prefix(value).ok_or_else(|| format!("cannot read this {what} rule"))?;
            let text = value[..value.len() - reason.len()].trim().to_owned();
            Ok::<Rule, String>(Rule { line, text, expression, reason: reason.trim().to_owned() })
        };
        match name {
            "idea" => self.idea = Some(value.to_owned()),
            "needs" => {
                for name in value.split_whitespace() {
                    self.needs.push(name.parse().map_err(|e: crate::UnknownFeature| e.to_string())?);
                }
            }
            "requires" => self.requires.extend(required(line, value)?),
            "seen" => seen::check(value)?,
            "grid" | "partials" => {
                let rule = rule(name)?;
                if !rule.reason.is_empty() {
                    return Err(format!("cannot read this {name} rule: '{}' is left over", rule.reason));
                }
                *(if name == "grid" { &mut self.grid } else { &mut self.partials }) = Some(rule);
            }
            "default" => {
                for place in value.split(',') {
                    let words: Vec<&str> = place.split_whitespace().collect();
                    let number =
                        |word: &str| word.parse().map_err(|_| format!("'{word}' is no place among the defaults"));
                    match words[..] {
                        [place] => self.places.push((None, number(place)?)),
                        [op, place] => self.places.push((Some(op.to_owned()), number(place)?)),
                        _ => {
                            return Err(
                                "cannot read this: '// default: PLACE' or '// default: OP PLACE, ..'".to_owned()
                            );
                        }
                    }
                }
            }
            "plan-only" => self.plan_only = Some(value.to_owned()),
            "precision" => self.precision = Some(value.parse().map_err(|e: crate::UnknownPrecision| e.to_string())?),
            "sums" => self.sums = Some(value.to_owned()),
            // A misspelt directive would be ignored in silence. The heads of ops say nothing else; others are prose.
            _ if is_head
                && self.path.starts_with("ops/")
                && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') =>
            {
                return Err(format!("there is no directive '{name}': {}", DIRECTIVES.join(", ")));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Import {
    /// The name of the tunable that chooses among its paths: the folder's.
    pub(crate) fn tunable(&self) -> Option<&str> {
        let (folder, _) = self.path.rsplit_once('/').filter(|_| !self.choices.is_empty())?;
        Some(folder.rsplit('/').next().unwrap_or(folder))
    }

    /// Whether it takes in the readers of an operand's format.
    pub(crate) fn is_of_format(&self) -> bool {
        self.path.ends_with("/*")
    }

    /// The path with another last part.
    pub(crate) fn with_last(&self, last: &str) -> String {
        self.path.rsplit_once('/').map_or_else(|| last.to_owned(), |(folder, _)| format!("{folder}/{last}"))
    }

    /// The paths that it may stand for where matrices have these formats, and the state any; all choices where `chosen`
    /// names none.
    pub(crate) fn paths(&self, formats: &[Format], chosen: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut paths = match (self.is_of_format(), self.tunable().map(chosen)) {
            (true, _) if self.path == STATE => {
                StateFormat::ALL.iter().map(|format| self.with_last(format.name())).collect()
            }
            (true, _) => formats.iter().map(|format| self.with_last(&format.name().to_lowercase())).collect(),
            (false, Some(Some(choice))) => vec![self.with_last(&choice)],
            (false, Some(None)) => self.choices.iter().map(|choice| self.with_last(choice)).collect(),
            (false, None) => vec![self.path.clone()],
        };
        if self.binding.is_some() {
            paths.push(ABSENT.to_owned());
        }
        paths
    }

    fn read(line: usize, text: &str) -> Option<Import> {
        let (code, comment) = text.split_once("//").unwrap_or((text, ""));
        let choices = comment.trim().strip_prefix("tune:").unwrap_or_default();
        let choices = choices.split_whitespace().map(str::to_owned).collect();
        let words: Vec<&str> = code.split_whitespace().collect();
        let (path, operand, binding) = match words[..] {
            [path] => (path, None, None),
            [path, "as", id] => (path, Some(id.to_owned()), None),
            [path, "as", id, "binding", n] => (path, Some(id.to_owned()), Some(n.parse().ok()?)),
            _ => return None,
        };
        Some(Import { line, path: path.to_owned(), operand, binding, choices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document, TextError> {
        Document::read(&Arc::from("ops/lerp/test"), text)
    }

    #[test]
    fn constants_are_read_and_set() {
        let c = constant("const ROWS: u32 = 2u;   // tune: 1 2 4").unwrap();
        assert_eq!(
            (c.name, c.marker.clone(), c.with("4")),
            ("ROWS", Marker::Tune(vec!["1", "2", "4"]), "const ROWS: u32 = 4u;".into())
        );
        let c = constant("const GRID: u32 = SM;   // tune: SM/2 SM 2*SM").unwrap();
        assert_eq!(c.with("2*SM"), "const GRID: u32 = 2*SM;");
        let c = constant("alias T = f32; // tune: f32 f16").unwrap();
        assert_eq!(c.with("f16"), "alias T = f16;");
        let c = constant("const N: u32 = 64u; // op: head_size").unwrap();
        assert_eq!((c.marker.clone(), c.with("128")), (Marker::Op("head_size"), "const N: u32 = 128u;".into()));
        assert_eq!(constant("const N: u32 = 64u; // a comment").unwrap().marker, Marker::None);
        assert_eq!(constant("    let n = 64u; // tune: 1"), None);
    }

    #[test]
    fn directives_of_a_file_are_read() {
        let file = read(
            "// idea: one thread per element.\n// needs: subgroups f16\n// grid: ceil_div(rows * m, WG)\n\
             // default: 10, matmul_add 5\n#import lib/x/f32   // tune: f32 q8\n\
             #import lib/quant/* as w binding 2\nconst WG: u32 = 64u;  // tune: 32 64\n\
             const_assert WG >= 32u;  // a subgroup\n",
        )
        .unwrap();
        assert_eq!(file.idea.as_deref(), Some("one thread per element."));
        assert_eq!(file.needs, [Feature::Subgroups, Feature::F16]);
        assert_eq!(file.places, [(None, 10), (Some("matmul_add".into()), 5)]);
        let names: Vec<(&str, usize)> = file.tunables.iter().map(|t| (t.name.as_str(), t.default)).collect();
        assert_eq!(names, [("x", 0), ("WG", 1)]);
        assert_eq!(file.imports[1].binding, Some(2));
    }

    #[test]
    fn an_unreadable_directive_is_named_with_its_line() {
        for (text, why) in [
            ("// needs: magic", "magic"),
            ("// prune: WG < 1u   wide", "plans/heuristics"),
            ("// grid: ceil_div(rows", "grid"),
            ("// precision: exact", "exact"),
            ("// defaults: 10", "'default'"),
            ("const WG: u32 = 32u; // tunes: 32 64", "'tune'"),
            ("#import lib/x/f32 // tuned: f32 q8", "'tune'"),
            ("// reasons: none", "no directive 'reasons'"),
            ("#import lib/x as", "import"),
            ("#import lib/x/f32 // tune: q8 q15", "choices"),
            ("const WG: u32 = 7u; // tune: 32 64", "choices"),
            ("const WG: u32 = 32u; // tune: 32 32", "twice"),
            ("const_assert WG > 1u;", "reason"),
            ("const_assert popcount(WG);  // one", "cannot read"),
        ] {
            let error = read(&format!("// A head.\n{text}\n")).unwrap_err().to_string();
            assert!(error.starts_with("ops/lerp/test.wgsl:2: ") && error.contains(why), "{error}");
        }
    }
}
