//! One kernel as a stage: its names set apart from those of other stages, its operands read from pools.

use super::locals::Locals;
use super::tokens::{Token, items, tokens};
use super::{Base, StagePart, can_be_stage};
use crate::{Access, Refusal};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// The variable that stages share, one after another.
const ROOM: &str = "room";

/// The function that a stage calls when it has sent for all that no other stage makes (`kernels-wgsl/shared/others.wgsl`).
const HOOK: &str = "others_done";

/// What marks a constant that says whether operands lie together, so that the first can stand for all
/// (`const TOGETHER: bool = false; // merged: a b c by which`).
const TOGETHER: &str = "// merged:";

/// A stage's text and what must be known to call it.
pub(super) struct Stage {
    /// Its items, renamed.
    pub(super) text: String,
    /// Directives that must come first in a module.
    pub(super) directives: BTreeSet<String>,
    /// The call for a `unit`.
    pub(super) call: String,
    /// Elements of 16 bytes of the shared room that it needs.
    pub(super) room: u32,
    /// Operands whose base differs from layer to layer, and its column in the table.
    pub(super) moving: Vec<(String, usize)>,
    /// Invocations of a unit.
    pub(super) width: u32,
    /// The name of its hook, if it has one.
    pub(super) hook: Option<String>,
}

/// What becomes of a module-scope name.
enum Fate {
    /// It gets the stage's prefix.
    Renamed(String),
    /// An operand: the pool it lies in, and where there.
    Operand { pool: String, base: String },
    /// It stays: the shared room.
    Kept,
}

impl Stage {
    /// Makes a stage of a kernel for workgroups of `threads` invocations.
    ///
    /// # Errors
    /// The kernel cannot be a stage: the reason.
    pub(super) fn new(number: usize, part: &StagePart<'_>, threads: u32) -> Result<Self, Refusal> {
        let width: u32 = part.kernel.reflection.workgroup_size.iter().product();
        let own_width = width == threads;
        if !can_be_stage(part.kernel, threads) {
            return Err(Refusal::Shape("its workgroups are of another size"));
        }
        let all = tokens(&part.kernel.wgsl);
        let items = items(&all);
        let prefix = format!("s{number}_");
        let mut moving = Vec::new();
        let mut fates: HashMap<&str, Fate> = HashMap::new();
        for item in &items {
            let Some(name) = declared(item) else { continue };
            let renamed = format!("{prefix}{name}");
            let binding = part.kernel.reflection.bindings.iter().find(|b| b.name == name && is_resource(item));
            let fate = match binding {
                Some(binding) if binding.access != Access::Uniform => {
                    let place = part.places.iter().find(|(n, _)| *n == binding.number).map(|(_, place)| place);
                    let place = place.ok_or(Refusal::Shape("one of its operands has no place"))?;
                    let base = match place.base {
                        Base::Fixed(base) => format!("{base}u"),
                        Base::PerLayer(column) => {
                            moving.push((format!("{renamed}_base"), column));
                            format!("{renamed}_base")
                        }
                    };
                    Fate::Operand { pool: super::pool_name(place.pool), base }
                }
                _ if name == ROOM => Fate::Kept,
                _ => Fate::Renamed(renamed),
            };
            fates.insert(name, fate);
        }
        let mut text = String::new();
        let together = together(&part.kernel.wgsl, &items, &prefix, (&mut fates, &mut text));
        let mut hook = None;
        let mut directives = BTreeSet::new();
        let mut call = String::new();
        for item in &items {
            match (item.first().map(Token::text), declared(item)) {
                (Some("enable" | "requires" | "diagnostic"), _) => {
                    directives.insert(item.iter().map(Token::text).collect::<String>());
                }
                (_, Some(HOOK)) => hook = Some(format!("{prefix}{HOOK}")),
                (_, Some(name)) if together.contains(&name) => {
                    let _ = write!(text, "const {prefix}{name}: bool = true;");
                }
                (_, Some("params")) if is_resource(item) => text += &params(&prefix, part.params),
                (_, Some(ROOM)) => {}
                (_, Some(_)) if is_resource(item) => {}
                (_, Some("main")) if is_entry(item) => {
                    let (parameters, body, arguments) = entry(item, own_width.then_some(()), width)?;
                    let mut locals = Locals::of_function(&parameters);
                    let _ = write!(text, "fn {prefix}main({})", written(&parameters, &fates, &mut locals)?);
                    text += &written(body, &fates, &mut locals)?;
                    call = format!("{prefix}main({arguments})");
                }
                _ => text += &written(item, &fates, &mut Locals::of_item(item))?,
            }
            text.push('\n');
        }
        for (name, _) in &moving {
            let _ = writeln!(text, "var<private> {name}: u32;");
        }
        Ok(Stage { text, directives, call, room: part.kernel.reflection.room, moving, width, hook })
    }
}

/// The constants that are true because the operands that they name lie in one pool, in one format. The first of those then
/// begins where the one does that its variable says: `text` gets the function that knows.
fn together<'a>(
    wgsl: &'a str,
    items: &[Vec<Token<'a>>],
    prefix: &str,
    (fates, text): (&mut HashMap<&'a str, Fate>, &mut String),
) -> Vec<&'a str> {
    let mut found = Vec::new();
    for line in wgsl.lines() {
        let Some((code, rule)) = line.split_once(TOGETHER) else { continue };
        let (Some(name), Some((names, which))) = (code.split([' ', ':']).nth(1), rule.split_once(" by ")) else {
            continue;
        };
        let names: Vec<&str> = names.split_whitespace().collect();
        let place = |name: &&str| match fates.get(name) {
            Some(Fate::Operand { pool, base }) => Some((pool.clone(), base.clone())),
            _ => None,
        };
        let Some(places) = names.iter().map(place).collect::<Option<Vec<_>>>() else { continue };
        let Some(((pool, otherwise), others)) = places.split_last() else { continue };
        let first = said_of(names[0], items);
        let alike = names.iter().all(|name| said_of(name, items).is_subset(&first));
        if !alike || others.iter().any(|(other, _)| other != pool) {
            continue;
        }
        let base = others.iter().enumerate().fold(otherwise.clone(), |otherwise, (i, (_, base))| {
            format!("select({otherwise}, {base}, {prefix}{} == {i}u)", which.trim())
        });
        let of_any = format!("{prefix}{}_of_any", names[0]);
        let _ = writeln!(text, "fn {of_any}() -> u32 {{ return {base}; }}");
        let (first, pool) = (names[0], pool.clone());
        if let Some(fate) = fates.get_mut(first) {
            *fate = Fate::Operand { pool, base: format!("{of_any}()") };
        }
        found.push(name);
    }
    found
}

/// What items say that are named after an operand, with a blank for its name: operands of one format say the same.
fn said_of(operand: &str, items: &[Vec<Token<'_>>]) -> BTreeSet<String> {
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

/// The uniform block as a variable: its layout is that of `shared/params.wgsl`.
fn params(prefix: &str, p: [u32; 12]) -> String {
    let eps = f32::from_bits(p[7]);
    format!(
        "var<private> {prefix}params: {prefix}Params = {prefix}Params({}u, {}u, {}u, {}u, {}u, {}u, {}u, {eps:e}f, \
         vec4<u32>({}u, {}u, {}u, {}u));",
        p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[8], p[9], p[10], p[11]
    )
}

/// The index behind an item's attributes.
fn behind_attributes(item: &[Token<'_>]) -> usize {
    let mut at = 0;
    while item.get(at).is_some_and(|t| t.is("@")) {
        at += 2;
        let blank = |t: Option<&Token<'_>>| matches!(t, Some(Token::Blank(_)));
        if item.get(at).is_some_and(|t| t.is("(")) {
            at += item[at..].iter().position(|t| t.is(")")).map_or(1, |p| p + 1);
        }
        while blank(item.get(at)) {
            at += 1;
        }
    }
    at
}

/// The name that a module-scope item declares.
fn declared<'a>(item: &[Token<'a>]) -> Option<&'a str> {
    let rest = &item[behind_attributes(item)..];
    let (Token::Name("fn" | "const" | "override" | "struct" | "alias" | "var"), mut rest) = (rest.first()?, &rest[1..])
    else {
        return None;
    };
    if rest.first().is_some_and(|t| t.is("<")) {
        rest = &rest[rest.iter().position(|t| t.is(">"))? + 1..];
    }
    rest.iter().find_map(|t| match t {
        Token::Name(name) => Some(*name),
        _ => None,
    })
}

fn is_resource(item: &[Token<'_>]) -> bool {
    item.first().is_some_and(|t| t.is("@")) && item.get(behind_attributes(item)) == Some(&Token::Name("var"))
}

fn is_entry(item: &[Token<'_>]) -> bool {
    item.get(1) == Some(&Token::Name("compute"))
}

/// The parameters of an entry point without their attributes, its body, and the arguments for a `unit`.
fn entry<'i, 'a>(
    item: &'i [Token<'a>],
    own_width: Option<()>,
    width: u32,
) -> Result<(Vec<Token<'a>>, &'i [Token<'a>], String), Refusal> {
    let wrong = Refusal::Shape("its entry point cannot be read");
    let begin = behind_attributes(item);
    let open = begin + item[begin..].iter().position(|t| t.is("(")).ok_or(wrong.clone())?;
    let body = open + item[open..].iter().position(|t| t.is("{")).ok_or(wrong.clone())?;
    let mut parameters = Vec::new();
    let mut arguments: Vec<String> = Vec::new();
    let mut at = open + 1;
    let end = open + item[open..body].iter().rposition(|t| t.is(")")).ok_or(wrong.clone())?;
    while at < end {
        if !item[at].is("@") {
            parameters.push(item[at]);
            at += 1;
            continue;
        }
        let Some(Token::Name(builtin)) = item.get(at + 3) else { return Err(wrong) };
        arguments.push(match (*builtin, own_width) {
            ("workgroup_id", _) => "vec3<u32>(unit, 0u, 0u)".to_owned(),
            ("num_workgroups", _) => "vec3<u32>(units, 1u, 1u)".to_owned(),
            ("local_invocation_index", Some(())) => "lane".to_owned(),
            ("local_invocation_index", None) => format!("lane % {width}u"),
            ("subgroup_id", Some(())) => "subgroup".to_owned(),
            ("num_subgroups", Some(())) => "subgroups".to_owned(),
            ("subgroup_invocation_id", _) => "subgroup_lane".to_owned(),
            _ => return Err(Refusal::Shape("its entry point has a built-in that a stage cannot give it")),
        });
        // `@ builtin ( name )`
        at += 5;
    }
    Ok((parameters, &item[body..], arguments.join(", ")))
}

/// The text of an item with every name as its fate is, but for names that are local where they stand.
fn written(item: &[Token<'_>], fates: &HashMap<&str, Fate>, locals: &mut Locals) -> Result<String, Refusal> {
    let mut out = String::new();
    let members = members(item);
    // Depth of the brackets that index an operand: what they hold is added to its base.
    let mut indexing: Vec<usize> = Vec::new();
    let mut depth = 0usize;
    let mut skip_bracket = false;
    for (i, token) in item.iter().enumerate() {
        let is_member = (i > 0 && item[i - 1].is(".")) || members.contains(&i);
        let is_local = locals.follow(token);
        match token {
            Token::Name(name) => match fates.get(name).filter(|_| !is_member && !is_local) {
                None | Some(Fate::Kept) => out += name,
                Some(Fate::Renamed(to)) => out += to,
                Some(Fate::Operand { pool, base }) => {
                    if !item.get(i + 1).is_some_and(|t| t.is("[")) {
                        return Err(Refusal::Shape("an operand is used otherwise than by index"));
                    }
                    let _ = write!(out, "{pool}[{base} + (");
                    skip_bracket = true;
                    indexing.push(depth);
                }
            },
            Token::Other("[") => {
                depth += 1;
                if !std::mem::take(&mut skip_bracket) {
                    out.push('[');
                }
            }
            Token::Other("]") => {
                depth = depth.saturating_sub(1);
                if indexing.last() == Some(&depth) {
                    indexing.pop();
                    out.push(')');
                }
                out.push(']');
            }
            other => out += other.text(),
        }
    }
    Ok(out)
}

/// Where a struct declares its members: their names are not the module's.
fn members(item: &[Token<'_>]) -> HashSet<usize> {
    if item.first() != Some(&Token::Name("struct")) {
        return HashSet::new();
    }
    let named = |i: &usize| matches!(item[*i], Token::Name(_)) && item.get(i + 1).is_some_and(|t| t.is(":"));
    (0..item.len()).filter(named).collect()
}
