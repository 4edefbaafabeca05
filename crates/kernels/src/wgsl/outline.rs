//! A kernel's file with all that it imports, for operands of given formats: everything but the literals that a
//! configuration, an op and a device set. Made once, then asked for every configuration.
//!
//! `#import PATH` takes a file in once. `#import lib/quant/* as ID binding N` takes in the readers of the format in
//! which the operand ID is stored at this op instance, every `weight` and `weight_...` renamed to `ID` and `ID_...`; an
//! operand that the op lacks there becomes `lib/absent`. `#import PATH as ID` takes in a file that is written for an
//! operand, once for each.

use super::document::{ABSENT, Declared, Document, Import, Marker, Rule, const_assert, constant};
use super::expression::{Expression, Lookup, NoValue, Scope, Value};
use super::lex::{Token, tokens};
use super::requires::Required;
use super::shake::reachable;
use super::{Documents, Text, TextError};
use crate::{Feature, Precision};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Most lines that imports may expand to, and most bytes of them.
const MOST_LINES: usize = 100_000;
const MOST_BYTES: usize = 8 << 20;

/// How deep files may import one another, and how many imports there may be.
const MOST_NESTED: usize = 32;
const MOST_IMPORTS: usize = 1000;

/// A size, a limit or an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Number(u64),
    Bool(bool),
    /// The name of a constant.
    Name(&'static str),
}

/// How an operand is read at an op instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    /// The op lacks it.
    Absent,
    /// As it is bound: it is no matrix.
    Plain,
    /// By the readers of a format.
    Format(&'static str),
}

/// What sets the literals of an outline.
pub(crate) struct Setting<'a> {
    /// The tunables of the kernel's file.
    pub(crate) tunables: &'a [Declared],
    /// For each, which choice is taken.
    pub(crate) chosen: &'a [u8],
    /// Sizes and attributes of the op; `None` for kernels of no op.
    pub(crate) op: &'a dyn Fn(&str) -> Option<Fact>,
    /// Limits of the device.
    pub(crate) device: &'a dyn Fn(&str) -> Option<u64>,
}

impl<'a> Setting<'a> {
    /// The choice that is taken of a tunable.
    fn choice(&self, name: &str) -> Option<(&'a Declared, usize)> {
        let at = self.tunables.iter().position(|t| t.name == name)?;
        Some((&self.tunables[at], self.chosen.get(at).map_or(self.tunables[at].default, |c| usize::from(*c))))
    }
}

/// A constant of an outline.
#[derive(Debug)]
struct Constant {
    expression: Option<Expression>,
    setter: Setter,
}

/// Who sets a constant.
#[derive(Debug)]
enum Setter {
    Fixed,
    /// The tunable of its name, whose choices are worth this.
    Plan(Vec<Option<Expression>>),
    Op(String),
    Device(String),
}

/// A line with where it comes from: the number of a file, and its line there.
type Placed<T> = (T, (usize, usize));

/// The expanded kernel.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The files it is made of; the kernel's own first.
    pub(crate) files: Vec<Arc<str>>,
    /// Features that any of them needs.
    pub(crate) needs: BTreeSet<Feature>,
    /// The least precise of what they compute with.
    pub(crate) precision: Precision,
    /// What an operand's format lacks: operand, format, readers.
    pub(crate) missing: Option<(String, &'static str, String)>,
    /// What is wrong if reached code lacks a name that its file requires: legality may keep it from being reached.
    unmet: Option<TextError>,
    /// Operands by the number of their binding, of those whose readers bind them.
    bound: HashMap<u32, String>,
    /// Operands whose readers are those of their format.
    by_format: HashSet<String>,
    constants: HashMap<String, Constant>,
    rules: Vec<Placed<Rule>>,
    /// Those that the entry point reaches.
    lines: Vec<Placed<String>>,
}

/// A rule of legality that a configuration breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) path: Arc<str>,
    pub(crate) line: usize,
    pub(crate) rule: String,
    pub(crate) reason: String,
}

impl Outline {
    /// Expands the file at `path`.
    pub(crate) fn new(
        documents: &Documents,
        path: &str,
        reader: &dyn Fn(&str) -> Reader,
        imports: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Outline, TextError> {
        let mut expansion = Expansion {
            documents,
            reader,
            imports,
            formats: Vec::new(),
            required: Vec::new(),
            seen: HashSet::new(),
            depth: 0,
            bytes: 0,
            out: Outline {
                files: Vec::new(),
                needs: BTreeSet::new(),
                precision: Precision::F32,
                missing: None,
                unmet: None,
                bound: HashMap::new(),
                by_format: HashSet::new(),
                constants: HashMap::new(),
                rules: Vec::new(),
                lines: Vec::new(),
            },
        };
        let document = documents
            .get(path)
            .ok_or_else(|| TextError::at(&Arc::from(path), 0, "there is no such file".to_owned()))?;
        expansion.document(document, None)?;
        let Expansion { mut out, formats, required, .. } = expansion;
        let found = reachable(out.lines.iter().map(|(line, _)| line.as_str()), &["main"]);
        let mut kept = found.lines.iter();
        out.lines.retain(|_| kept.next().copied().unwrap_or(false));
        // As WGSL wants it, wherever the files are imported; each once.
        out.lines.sort_by_key(|(line, _)| !line.starts_with("enable "));
        let mut enabled = HashSet::new();
        out.lines.retain(|(line, _)| !line.starts_with("enable ") || enabled.insert(line.clone()));
        let is_unmet = |(required, _): &&Placed<Required>| match found.keywords.get(&required.name) {
            Some(keyword) => !required.is_met_by(keyword),
            None => found.undeclared.contains(&required.name),
        };
        out.unmet = required.iter().find(is_unmet).map(|(Required { kind, name, .. }, (file, line))| {
            let why = format!("requires {kind} {name}, which {path}.wgsl does not define");
            TextError::at(&out.files[*file], *line, why)
        });
        out.missing = formats.into_iter().find_map(|(operand, format)| {
            let reader = |name: &String| name.strip_prefix(&operand)?.strip_prefix('_').map(str::to_owned);
            let readers: Vec<String> = found.undeclared.iter().filter_map(reader).collect();
            (!readers.is_empty()).then(|| (operand.clone(), format, readers.join(", ")))
        });
        Ok(out)
    }

    /// The operand whose readers bind it at this number.
    pub(crate) fn operand(&self, binding: u32) -> Option<String> {
        self.bound.get(&binding).cloned()
    }

    /// Whether a size or attribute of the op sets one of its constants.
    pub(crate) fn depends_on(&self, size: &str) -> bool {
        self.constants.values().any(|constant| matches!(&constant.setter, Setter::Op(name) if name == size))
    }

    /// Whether an operand is read in whatever format it is stored.
    pub(crate) fn reads_by_format(&self, operand: &str) -> bool {
        self.by_format.contains(operand)
    }

    /// The first rule of legality that does not hold.
    ///
    /// # Errors
    /// A rule that has no value here.
    pub(crate) fn broken(&self, names: &Names<'_>) -> Result<Option<Broken>, TextError> {
        for (rule, (file, line)) in &self.rules {
            match rule.expression.truth(names) {
                Ok(true) => {}
                Ok(false) => {
                    let (rule, reason) = (rule.text.clone(), rule.reason.clone());
                    let path = Arc::clone(&self.files[*file]);
                    return Ok(Some(Broken { path, line: *line, rule, reason }));
                }
                Err(why) => return Err(self.without_value(rule, (*file, *line), &why)),
            }
        }
        Ok(None)
    }

    fn without_value(&self, rule: &Rule, (file, line): (usize, usize), why: &NoValue) -> TextError {
        TextError::at(&self.files[file], line, format!("the rule '{}' cannot be decided: {why}", rule.text))
    }

    /// The value of an expression of the kernel's file, such as its grid.
    ///
    /// # Errors
    /// It has none here.
    pub(crate) fn number(&self, rule: &Rule, names: &Names<'_>) -> Result<u64, TextError> {
        let value = rule.expression.number(names);
        value.map_err(|why| self.without_value(rule, (0, rule.line), &why))
    }

    /// The text for a setting, loops written out.
    ///
    /// # Errors
    /// A name that a file requires and none defines, a literal that nothing sets, or a loop that cannot be written out.
    pub(crate) fn text(&self, setting: &Setting<'_>) -> Result<Text, TextError> {
        self.unmet.clone().map_or(Ok(()), Err)?;
        let mut text = Text::new(self.files.clone());
        for (line, (file, number)) in &self.lines {
            let fail = |why: String| TextError::at(&self.files[*file], *number, why);
            let set = match constant(line) {
                Some(c) => match c.marker {
                    Marker::None => None,
                    Marker::Tune(_) => setting.choice(c.name).and_then(|(t, i)| t.choices.get(i)).map(|v| c.with(v)),
                    Marker::Op(name) => {
                        let fact = (setting.op)(name).ok_or_else(|| fail(format!("no op has a literal '{name}'")))?;
                        Some(c.with(&match fact {
                            Fact::Number(n) => n.to_string(),
                            Fact::Bool(b) => b.to_string(),
                            Fact::Name(name) => name.to_owned(),
                        }))
                    }
                    Marker::Device(name) => {
                        let limit =
                            (setting.device)(name).ok_or_else(|| fail(format!("no device has a limit '{name}'")))?;
                        Some(c.with(&limit.to_string()))
                    }
                },
                None => None,
            };
            text.push(set.as_deref().unwrap_or(line), (*file, *number));
        }
        super::unroll::unroll(&text, &Names::new(self, setting))
    }
}

/// Names of an outline under a setting.
pub(crate) struct Names<'a> {
    outline: &'a Outline,
    setting: &'a Setting<'a>,
    /// What constants are worth: most rules refer to the same few.
    known: RefCell<HashMap<&'a str, Value>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(outline: &'a Outline, setting: &'a Setting<'a>) -> Self {
        Names { outline, setting, known: RefCell::default() }
    }
}

impl Scope for Names<'_> {
    fn found(&self, name: &str, value: Value) {
        if let Some((name, _)) = self.outline.constants.get_key_value(name) {
            self.known.borrow_mut().insert(name, value);
        }
    }

    fn lookup(&self, name: &str) -> Option<Lookup<'_>> {
        if let Some(value) = self.known.borrow().get(name) {
            return Some(Lookup::Value(*value));
        }
        let fact = |fact: Option<Fact>| match fact? {
            Fact::Number(n) => Some(Lookup::Value(Value::Number(n))),
            Fact::Bool(b) => Some(Lookup::Value(Value::Bool(b))),
            Fact::Name(_) => None,
        };
        let Some(constant) = self.outline.constants.get(name) else {
            // Rules in comments know sizes and limits by their names.
            return fact((self.setting.op)(name)).or_else(|| fact((self.setting.device)(name).map(Fact::Number)));
        };
        match &constant.setter {
            Setter::Fixed => constant.expression.as_ref().map(Lookup::Expression),
            Setter::Plan(choices) => {
                let (_, choice) = self.setting.choice(name)?;
                choices.get(choice)?.as_ref().map(Lookup::Expression)
            }
            Setter::Op(name) => fact((self.setting.op)(name)),
            Setter::Device(name) => fact((self.setting.device)(name).map(Fact::Number)),
        }
    }
}

/// The value of a number or of a text like `2*SM`, whose constants are those of an outline.
pub(crate) fn value(text: &str, outline: &Outline, setting: &Setting<'_>) -> Option<u64> {
    Expression::parse(text)?.number(&Names::new(outline, setting)).ok()
}

struct Expansion<'a> {
    documents: &'a Documents,
    reader: &'a dyn Fn(&str) -> Reader,
    imports: &'a dyn Fn(&str) -> Option<String>,
    /// Operands that readers of a format were taken in for.
    formats: Vec<(String, &'static str)>,
    /// What files require of whoever imports them.
    required: Vec<Placed<Required>>,
    seen: HashSet<(String, Option<String>)>,
    /// Files that are being expanded, each imported by the one before.
    depth: usize,
    /// Of the lines so far.
    bytes: usize,
    out: Outline,
}

/// How an operand's readers are renamed and, where they are imported, bound.
#[derive(Clone)]
pub(super) struct Operand {
    pub(super) name: String,
    pub(super) binding: Option<u32>,
}

impl Expansion<'_> {
    fn document(&mut self, document: &Document, operand: Option<&Operand>) -> Result<(), TextError> {
        let file = self.out.files.iter().position(|f| *f == document.path).unwrap_or_else(|| {
            self.out.files.push(Arc::clone(&document.path));
            self.out.files.len() - 1
        });
        self.out.needs.extend(&document.needs);
        self.out.precision = self.out.precision.max(document.precision.unwrap_or_default());
        for required in &document.requires {
            let name = operand.map_or_else(|| required.name.clone(), |operand| rename(&required.name, operand));
            self.required.push((Required { name, ..required.clone() }, (file, required.line)));
        }
        let mut imports = document.imports.iter();
        for (i, line) in document.lines.iter().enumerate() {
            let at = (file, i + 1);
            if line.starts_with("#import ") {
                if let Some(import) = imports.next() {
                    self.import(document, import, operand)?;
                }
                continue;
            }
            let line = operand.map_or_else(|| line.clone(), |operand| rename(line, operand));
            if let Some(Ok((expression, reason))) = const_assert(&line) {
                let text = line.split(';').next().unwrap_or_default().trim().to_owned();
                let text = text.trim_start_matches("const_assert").trim().to_owned();
                self.out.rules.push((Rule { line: at.1, text, expression, reason: reason.to_owned() }, at));
                continue;
            }
            self.constant(document, &line);
            self.bytes += line.len();
            if self.out.lines.len() >= MOST_LINES || self.bytes > MOST_BYTES {
                let why = format!("imports expand to more than {MOST_LINES} lines, or {MOST_BYTES} bytes");
                return Err(TextError::at(&document.path, at.1, why));
            }
            self.out.lines.push((line, at));
        }
        Ok(())
    }

    fn constant(&mut self, document: &Document, line: &str) {
        let Some(c) = constant(line) else { return };
        let setter = match c.marker {
            Marker::None => Setter::Fixed,
            Marker::Tune(_) => {
                let tunable = document.tunables.iter().find(|t| t.name == c.name);
                let choices = tunable.map_or(&[][..], |t| &t.choices);
                Setter::Plan(choices.iter().map(|text| Expression::parse(text)).collect())
            }
            Marker::Op(name) => Setter::Op(name.to_owned()),
            Marker::Device(name) => Setter::Device(name.to_owned()),
        };
        let constant = Constant { expression: Expression::parse(c.literal), setter };
        self.out.constants.insert(c.name.to_owned(), constant);
    }

    fn import(&mut self, from: &Document, import: &Import, inherited: Option<&Operand>) -> Result<(), TextError> {
        let choice = import.tunable().and_then(self.imports);
        let mut path = choice.map_or_else(|| import.path.clone(), |choice| import.with_last(&choice));
        let mut operand = import.operand.as_ref().map(|id| Operand { name: id.clone(), binding: import.binding });
        if let (Some(operand), Some(binding)) = (&operand, import.binding) {
            self.out.bound.insert(binding, operand.name.clone());
            match (self.reader)(&operand.name) {
                Reader::Absent => path = ABSENT.to_owned(),
                Reader::Format(format) if import.is_of_format() => {
                    path = import.with_last(&format.to_lowercase());
                    self.formats.push((operand.name.clone(), format));
                    self.out.by_format.insert(operand.name.clone());
                }
                Reader::Format(_) | Reader::Plain => {}
            }
        }
        let missing = || TextError::at(&from.path, import.line, format!("there is no file '{path}.wgsl' to import"));
        let document = self.documents.get(path.as_str()).ok_or_else(missing)?;
        if operand.is_none() && document.is_of_operand {
            operand = inherited.cloned();
        }
        if !self.seen.insert((path.clone(), operand.as_ref().map(|o| o.name.clone()))) {
            return Ok(());
        }
        if self.depth == MOST_NESTED || self.seen.len() > MOST_IMPORTS {
            let why = format!("more than {MOST_IMPORTS} imports, or nested more than {MOST_NESTED} deep");
            return Err(TextError::at(&from.path, import.line, why));
        }
        self.depth += 1;
        self.document(document, operand.as_ref())?;
        self.depth -= 1;
        Ok(())
    }
}

/// Renames `weight` and `weight_...` to the operand's name and gives its binding, leaving comments alone.
pub(super) fn rename(line: &str, operand: &Operand) -> String {
    let (code, comment) = line.split_at(line.find("//").unwrap_or(line.len()));
    let code = match operand.binding {
        Some(binding) => code.replace("@binding(0)", &format!("@binding({binding})")),
        None => code.to_owned(),
    };
    let mut out = String::with_capacity(line.len());
    for token in tokens(&code) {
        match token {
            Token::Name("weight") => out += &operand.name,
            Token::Name(name) => match name.strip_prefix("weight_") {
                Some(rest) => out.extend([operand.name.as_str(), "_", rest]),
                None => out += name,
            },
            other => out += other.text(),
        }
    }
    out + comment
}
