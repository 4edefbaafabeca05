//! One kernel as a stage: its names are distinct from the names of other stages, its operands are read from bound
//! buffers.

use super::operand::{Place, store_of};
use super::part::{AnnouncedOperand, BufferSlice, NotAStage, Offset, Part, buffer_name};
use crate::wgsl::lex::{Token, behind_attributes, declared, is_binding, is_entry_point, items, tokens};
use crate::wgsl::locals::Locals;
use crate::wgsl::reflect::{DEPENDENCY_WAIT, SCRATCH};
use crate::wgsl::shake::members;
use crate::{Access, Binding, Params};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// What marks a constant that says whether operands are in one buffer in one format, so that the code of the first can serve
/// all (`const SAME_BUFFER: bool = false; // same-buffer: a b c by which`).
const SAME_BUFFER: &str = "// same-buffer:";

/// A stage's text and what must be known to call it.
pub(super) struct Stage {
    /// Its items, renamed.
    pub(super) text: String,
    /// Directives that must come first in a module.
    pub(super) directives: BTreeSet<String>,
    /// The call for a workgroup `index` of `count`.
    pub(super) call: String,
    /// Elements of 16 bytes of the shared scratch that it needs.
    pub(super) scratch: u32,
    /// Variables for the offsets that differ from layer to layer, and the column of each in the table.
    pub(super) per_layer: Vec<(String, usize)>,
    /// Threads of one of its workgroups.
    pub(super) threads: u32,
    /// The name of its `grid_dependency_wait`, if it has one.
    pub(super) dependency_wait: Option<String>,
}

/// What becomes of a module-scope name.
enum Rename {
    /// It gets the stage's prefix.
    To(String),
    /// An operand: its buffer, and the offset there.
    Operand { buffer: String, offset: String },
    /// An operand whose values announce themselves: where they are loaded, and where stored.
    Announced { loaded: Place, stored: Place },
    /// It stays: the shared scratch.
    Kept,
}

impl Stage {
    /// Makes a stage for workgroups of `threads`.
    ///
    /// # Errors
    /// The kernel cannot be a stage: the reason.
    pub(super) fn new(number: usize, part: &Part<'_>, threads: u32) -> Result<Self, NotAStage> {
        let of_tokens = tokens(part.text);
        let items = items(&of_tokens);
        let prefix = format!("s{number}_");
        let mut per_layer = Vec::new();
        let mut renames: HashMap<&str, Rename> = HashMap::new();
        for item in &items {
            let Some(name) = declared(item) else { continue };
            let renamed = format!("{prefix}{name}");
            let number = binding_number(item);
            let binding = part.facts.bindings.iter().find(|b| Some(b.number) == number);
            let rename = match binding {
                Some(binding) if binding.access != Access::Uniform => {
                    let slice = part.slices.iter().find(|(n, _)| *n == binding.number);
                    let slice = slice.map(|(_, slice)| in_buffer(slice, &renamed, &mut per_layer));
                    let announced = part.announced.iter().find(|(n, _)| *n == binding.number);
                    let rename = match announced {
                        Some((_, cells)) => announced_operand(cells, binding, slice),
                        None => slice.map(|(buffer, offset)| Rename::Operand { buffer, offset }),
                    };
                    rename.ok_or(NotAStage("one of its operands is in no buffer"))?
                }
                _ if name == SCRATCH => Rename::Kept,
                _ => Rename::To(renamed),
            };
            renames.insert(name, rename);
        }
        let mut text = String::new();
        let same_buffer = same_buffer(part.text, &items, &prefix, (&mut renames, &mut text));
        let mut dependency_wait = None;
        let mut directives = BTreeSet::new();
        let mut call = String::new();
        for item in &items {
            match (item.first().map(Token::text), declared(item)) {
                (Some("enable" | "requires" | "diagnostic"), _) => {
                    directives.insert(item.iter().map(Token::text).collect::<String>());
                }
                (_, Some(DEPENDENCY_WAIT)) => dependency_wait = Some(format!("{prefix}{DEPENDENCY_WAIT}")),
                (_, Some(name)) if same_buffer.contains(&name) => {
                    let _ = write!(text, "const {prefix}{name}: bool = true;");
                }
                (_, Some("params")) if is_binding(item) => text += &params(&prefix, part.params),
                (_, Some(SCRATCH)) => {}
                (_, Some(_)) if is_binding(item) => {}
                (_, Some("main")) if is_entry_point(item) => {
                    let entry = Entry::read(item, &items, &prefix, (part.facts.threads(), threads))?;
                    let mut locals = Locals::of_function(&entry.parameters);
                    let _ = write!(text, "fn {prefix}main({})", written(&entry.parameters, &renames, &mut locals)?);
                    text += &written(entry.body, &renames, &mut locals)?;
                    call = format!("{prefix}main({})", entry.arguments.join(", "));
                }
                _ => text += &written(item, &renames, &mut Locals::of_item(item))?,
            }
            text.push('\n');
        }
        for (name, _) in &per_layer {
            let _ = writeln!(text, "var<private> {name}: u32;");
        }
        let (scratch, threads) = (part.facts.scratch, part.facts.threads());
        Ok(Stage { text, directives, call, scratch, per_layer, threads, dependency_wait })
    }
}

impl Stage {
    /// Its text, where what it waits for is this.
    pub(super) fn with_dependency_wait(&self, result: &str) -> String {
        let hook = |hook| format!("fn {hook}(tid: u32) -> u32 {{ return {result}; }}\n");
        self.dependency_wait.as_ref().map_or(String::new(), hook) + &self.text
    }

    /// Loads the offsets that differ from layer to layer.
    pub(super) fn load_offsets(&self, out: &mut String) {
        for (name, column) in &self.per_layer {
            let _ = writeln!(out, "        {name} = offset_at(layer, {column}u);");
        }
    }
}

/// The buffer of a slice and the offset there; an offset that differs from layer to layer is a variable.
fn in_buffer(slice: &BufferSlice, name: &str, per_layer: &mut Vec<(String, usize)>) -> (String, String) {
    let offset = match slice.offset {
        Offset::Fixed(offset) => format!("{offset}u"),
        Offset::PerLayer(column) => {
            per_layer.push((format!("{name}_offset"), column));
            format!("{name}_offset")
        }
    };
    (buffer_name(slice.buffer), offset)
}

/// An operand in cells, as far as it is there, else in its slice. What nothing hands over is loaded by no path that is taken.
fn announced_operand(cells: &AnnouncedOperand, binding: &Binding, slice: Option<(String, String)>) -> Option<Rename> {
    let is_vec4 = binding.element.is_some_and(|element| element.wgsl == "vec4<f32>");
    let slice = slice.map(|(buffer, offset)| Place::Buffer { buffer, offset });
    let place = |layer: &str, first: u32| Place::Cells { first: format!("{layer} + {first}u"), is_vec4 };
    let own = cells.stored.map(|first| place("cells_here", first)).or_else(|| slice.clone());
    let loaded = cells.loaded.map(|c| place(if c.of_layer_before { "cells_before" } else { "cells_here" }, c.first));
    let loaded = loaded.or(slice).or_else(|| own.clone())?;
    Some(Rename::Announced { stored: own.unwrap_or_else(|| loaded.clone()), loaded })
}

/// The constants that are true because the operands that they name are in one buffer, in one format. The first of those then
/// begins where the one does that its variable says: `text` gets the function that knows.
fn same_buffer<'a>(
    wgsl: &'a str,
    items: &[Vec<Token<'a>>],
    prefix: &str,
    (renames, text): (&mut HashMap<&'a str, Rename>, &mut String),
) -> Vec<&'a str> {
    let mut found = Vec::new();
    for line in wgsl.lines() {
        let Some((code, rule)) = line.split_once(SAME_BUFFER) else { continue };
        let (Some(name), Some((names, which))) = (code.split([' ', ':']).nth(1), rule.split_once(" by ")) else {
            continue;
        };
        let names: Vec<&str> = names.split_whitespace().collect();
        let slice = |name: &&str| match renames.get(name) {
            Some(Rename::Operand { buffer, offset }) => Some((buffer.clone(), offset.clone())),
            _ => None,
        };
        let Some(slices) = names.iter().map(slice).collect::<Option<Vec<_>>>() else { continue };
        let Some(((buffer, otherwise), others)) = slices.split_last() else { continue };
        let first = signature(names[0], items);
        let alike = names.iter().all(|name| signature(name, items).is_subset(&first));
        if !alike || others.iter().any(|(other, _)| other != buffer) {
            continue;
        }
        let offset = others.iter().enumerate().fold(otherwise.clone(), |otherwise, (i, (_, offset))| {
            format!("select({otherwise}, {offset}, {prefix}{} == {i}u)", which.trim())
        });
        let of_any = format!("{prefix}{}_any_offset", names[0]);
        let _ = writeln!(text, "fn {of_any}() -> u32 {{ return {offset}; }}");
        let (first, buffer) = (names[0], buffer.clone());
        if let Some(rename) = renames.get_mut(first) {
            *rename = Rename::Operand { buffer, offset: format!("{of_any}()") };
        }
        found.push(name);
    }
    found
}

/// The items that are named after an operand, with its name removed: equal for operands of equal format.
fn signature(operand: &str, items: &[Vec<Token<'_>>]) -> BTreeSet<String> {
    let of_operand =
        |name: &str| name.strip_prefix(operand).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    let own = items.iter().filter(|item| declared(item).is_some_and(|name| name != operand && of_operand(name)));
    own.map(|item| {
        let text = |token: &Token<'_>| match token {
            Token::Name(name) if of_operand(name) => format!(" {}", &name[operand.len()..]),
            Token::Blank(_) => " ".to_owned(),
            other => other.text().to_owned(),
        };
        item.iter().map(text).collect()
    })
    .collect()
}

/// The number in an item's `@binding(N)`.
fn binding_number(item: &[Token<'_>]) -> Option<u32> {
    let at = item.iter().position(|t| *t == Token::Name("binding")).filter(|_| is_binding(item))?;
    item.get(at + 2)?.text().parse().ok()
}

/// The uniform block as a variable: its layout is that of `lib/op.wgsl`.
fn params(prefix: &str, p: &Params) -> String {
    let [a, b, c, d] = p.ranks;
    format!(
        "var<private> {prefix}params: {prefix}Params = {prefix}Params({}u, {}u, {}u, {}u, {}u, {}u, {}u, {:e}f, \
         vec4<u32>({a}u, {b}u, {c}u, {d}u));",
        p.rows, p.k, p.m, p.heads, p.segments, p.first, p.shard_rows, p.eps
    )
}

/// An entry point as a function.
struct Entry<'i, 'a> {
    /// Its parameters without their attributes.
    parameters: Vec<Token<'a>>,
    body: &'i [Token<'a>],
    /// What they are for a workgroup `index` of `count`.
    arguments: Vec<String>,
}

impl<'i, 'a> Entry<'i, 'a> {
    /// `own` threads of a workgroup of its own, `all` of a resident one.
    fn read(
        item: &'i [Token<'a>],
        items: &[Vec<Token<'a>>],
        prefix: &str,
        (own, all): (u32, u32),
    ) -> Result<Self, NotAStage> {
        let wrong = NotAStage("its entry point cannot be read");
        let begin = behind_attributes(item);
        let open = begin + item[begin..].iter().position(|t| t.is("(")).ok_or(wrong)?;
        let body = open + item[open..].iter().position(|t| t.is("{")).ok_or(wrong)?;
        let end = open + item[open..body].iter().rposition(|t| t.is(")")).ok_or(wrong)?;
        let (parameters, builtins) = without_builtins(&item[open + 1..end]);
        let mut builtins = builtins.into_iter();
        let mut arguments = Vec::new();
        for parameter in parameters.split(|t| t.is(",")) {
            let mut names = parameter.iter().filter_map(|t| match t {
                Token::Name(name) => Some(*name),
                _ => None,
            });
            let (Some(_), Some(ty)) = (names.next(), names.next()) else { continue };
            // A struct of built-ins, or one built-in.
            let of_struct = items.iter().find(|i| i.first() == Some(&Token::Name("struct")) && declared(i) == Some(ty));
            arguments.push(match of_struct {
                Some(of_struct) => {
                    let (_, members) = without_builtins(of_struct);
                    let members = members.into_iter().map(|b| argument(b, own, all)).collect::<Result<Vec<_>, _>>()?;
                    format!("{prefix}{ty}({})", members.join(", "))
                }
                None => argument(builtins.next().ok_or(wrong)?, own, all)?,
            });
        }
        Ok(Entry { parameters, body: &item[body..], arguments })
    }
}

/// Tokens without `@builtin(..)`, and what those named.
fn without_builtins<'a>(of: &[Token<'a>]) -> (Vec<Token<'a>>, Vec<&'a str>) {
    let (mut rest, mut builtins) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(token) = of.get(at) {
        match (token.is("@"), of.get(at + 3)) {
            (true, Some(Token::Name(builtin))) => {
                builtins.push(*builtin);
                // `@ builtin ( name )`
                at += 5;
            }
            _ => {
                rest.push(*token);
                at += 1;
            }
        }
    }
    (rest, builtins)
}

/// What a built-in is for a stage.
fn argument(builtin: &str, own: u32, all: u32) -> Result<String, NotAStage> {
    let is_whole = own == all;
    Ok(match builtin {
        "workgroup_id" => "vec3<u32>(index, 0u, 0u)".to_owned(),
        "num_workgroups" => "vec3<u32>(count, 1u, 1u)".to_owned(),
        "local_invocation_index" if is_whole => "tid".to_owned(),
        "local_invocation_index" => format!("tid % {own}u"),
        "subgroup_id" if is_whole => "subgroup".to_owned(),
        "num_subgroups" if is_whole => "num_subgroups".to_owned(),
        "subgroup_invocation_id" => "lane".to_owned(),
        _ => return Err(NotAStage("its entry point has a built-in that a stage cannot give it")),
    })
}

/// The text of an item with every name replaced, but for names that are local where they stand.
fn written(item: &[Token<'_>], renames: &HashMap<&str, Rename>, locals: &mut Locals) -> Result<String, NotAStage> {
    let mut out = String::new();
    let members = members(item);
    // Depth of the brackets that index an operand, and what ends such an index: what they hold is added to its offset.
    let mut indexing: Vec<(usize, &str)> = Vec::new();
    let mut depth = 0usize;
    let mut skip_bracket = false;
    // The `=` of statements that become calls, and where those end.
    let (mut assigned, mut calls) = (Vec::new(), Vec::new());
    for (i, token) in item.iter().enumerate() {
        let is_member = (i > 0 && item[i - 1].is(".")) || members.contains(&i);
        let is_local = locals.follow(token);
        match token {
            Token::Name(name) => {
                let (before, behind) = match renames.get(name).filter(|_| !is_member && !is_local) {
                    None | Some(Rename::Kept) => {
                        out += name;
                        continue;
                    }
                    Some(Rename::To(to)) => {
                        out += to;
                        continue;
                    }
                    Some(Rename::Operand { buffer, offset }) => (format!("{buffer}[{offset} + ("), ")]"),
                    Some(Rename::Announced { loaded, stored }) => match store_of(item, i + 1)? {
                        None => loaded.loaded(),
                        Some(store) => {
                            assigned.push(store.equals);
                            calls.extend(stored.is_cells().then_some(store.end));
                            stored.stored()
                        }
                    },
                };
                if !item.get(i + 1).is_some_and(|t| t.is("[")) {
                    return Err(NotAStage("an operand is used otherwise than by index"));
                }
                out += &before;
                skip_bracket = true;
                indexing.push((depth, behind));
            }
            Token::Other("[") => {
                depth += 1;
                if !std::mem::take(&mut skip_bracket) {
                    out.push('[');
                }
            }
            Token::Other("]") => {
                depth = depth.saturating_sub(1);
                let behind = indexing.pop_if(|(of, _)| *of == depth).map_or("]", |(_, behind)| behind);
                out += behind;
            }
            Token::Other("=") if assigned.contains(&i) => {}
            Token::Other(";") if calls.contains(&i) => out += ");",
            other => out += other.text(),
        }
    }
    Ok(out)
}
