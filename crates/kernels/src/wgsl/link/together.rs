//! Loads that wait for ready flags, begun together. A load that polls until its value is ready delays the loads behind
//! it, so independent loads first all poll once, then all poll again. This applies to functions that only load, or
//! stage what they load, and to successive `let` statements.

use super::operand::store_of;
use crate::wgsl::lex::{Token, declared, items, tokens};
use crate::wgsl::locals::Locals;
use crate::wgsl::reflect::SCRATCH;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// What looks until a value is there, and what looks once: must match `kernels-wgsl/device/announced.wgsl`.
const LOADS: [(&str, &str); 2] = [("announced", "seen"), ("announced_vec4", "seen_vec4")];

/// A stage's text with its loads begun together.
pub(super) fn together(text: &str) -> String {
    let all = tokens(text);
    let items = items(&all);
    let loaders = Loaders::among(&items);
    let mut out = String::new();
    for item in &items {
        match declared(item).filter(|name| loaders.names.contains(name)) {
            Some(name) => out += &loaders.twice(name, item),
            None => out += &runs(item),
        }
        out.push('\n');
    }
    out
}

/// The functions that do nothing but load, or stage what they load: they can be called again.
struct Loaders<'a> {
    names: BTreeSet<&'a str>,
}

impl<'a> Loaders<'a> {
    fn among(items: &[Vec<Token<'a>>]) -> Self {
        let declarations: HashMap<&str, &str> =
            items.iter().filter_map(|item| Some((declared(item)?, item.first()?.text()))).collect();
        let mut names = BTreeSet::new();
        loop {
            let more = items.iter().filter(|item| item.first() == Some(&Token::Name("fn")));
            let more: Vec<&str> =
                more.filter(|item| only_loads(item, &declarations, &names)).filter_map(|item| declared(item)).collect();
            let before = names.len();
            names.extend(more);
            if names.len() == before {
                return Loaders { names };
            }
        }
    }

    /// A loader that looks once, and one of the old name that looks until all is there.
    fn twice(&self, name: &str, item: &[Token<'_>]) -> String {
        let mut once = String::new();
        for token in item {
            once += &match (token, look_once(token.text())) {
                (Token::Name(of), _) if self.names.contains(of) => format!("{of}_seen"),
                (_, Some(seen)) => seen.to_owned(),
                (other, None) => other.text().to_owned(),
            };
        }
        let body = item.iter().position(|t| t.is("{")).unwrap_or(item.len());
        let head: String = item[..body].iter().map(Token::text).collect();
        let is_parameter = |i: &usize| item.get(i + 1).is_some_and(|t| t.is(":"));
        let parameters: Vec<&str> = (0..body).filter(is_parameter).map(|i| item[i].text()).collect();
        let call = format!("{name}_seen({});", parameters.join(", "));
        // A function that stages returns nothing.
        let (first, again, result) = match head.contains("->") {
            true => (format!("var found = {call}"), format!("found = {call}"), "return found;"),
            false => (call.clone(), call, ""),
        };
        let again = until_there(&again);
        format!("{once}\n{head}{{\n    is_missing = false;\n    {first}\n    {again}\n    {result}\n}}")
    }
}

/// Looks again with these statements until no value is missing.
fn until_there(statements: &str) -> String {
    format!("for (var looks = 0u; is_missing && looks_again(looks); looks++) {{ is_missing = false; {statements} }}")
}

fn look_once(name: &str) -> Option<&'static str> {
    LOADS.iter().find(|(until_there, _)| *until_there == name).map(|(_, once)| *once)
}

/// Whether a function loads values that announce themselves, itself or through such functions, and has no other effect than to
/// stage them and no other source but constants.
fn only_loads(item: &[Token<'_>], declarations: &HashMap<&str, &str>, known: &BTreeSet<&str>) -> bool {
    let own = declared(item);
    let mut locals = Locals::of_item(item);
    let mut loads = false;
    for (i, token) in item.iter().enumerate() {
        let is_local = locals.follow(token);
        let Token::Name(name) = token else { continue };
        if is_local || (i > 0 && item[i - 1].is(".")) || Some(*name) == own {
            continue;
        }
        match declarations.get(name) {
            _ if known.contains(name) || look_once(name).is_some() => loads = true,
            Some(&("const" | "struct" | "alias")) => {}
            Some(_) if name.ends_with("_params") => {}
            Some(_) => return false,
            None if *name == SCRATCH => {
                if !matches!(store_of(item, i + 1), Ok(Some(_))) {
                    return false;
                }
            }
            // Of what the stage does not declare a call may do anything, and a buffer may be stored.
            None => {
                let is_called = item.get(i + 1).is_some_and(|t| t.is("("));
                let is_indexed = item.get(i + 1).is_some_and(|t| t.is("["));
                if is_indexed || (is_called && !["min", "max", "select", "if"].contains(name)) {
                    return false;
                }
            }
        }
    }
    loads
}

/// A statement `let NAME = announced(..);`.
struct Let {
    /// From its `let` to its `;`.
    tokens: std::ops::Range<usize>,
    name: usize,
    /// What it calls.
    function: usize,
}

/// An item whose `let` statements that follow one another load together.
fn runs(item: &[Token<'_>]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < item.len() {
        let run = run_at(item, at);
        let Some(last) = run.last().filter(|_| run.len() > 1) else {
            out += item[at].text();
            at += 1;
            continue;
        };
        let (mut first, mut again) = (String::new(), String::new());
        for Let { tokens, name, function } in &run {
            let rest: String = item[function + 1..tokens.end].iter().map(Token::text).collect();
            let load = look_once(item[*function].text()).unwrap_or_default();
            let statement = format!("{} = {load}{rest}", item[*name].text());
            let _ = write!(first, "var {statement} ");
            let _ = write!(again, "{statement} ");
        }
        let _ = write!(out, "is_missing = false; {first}{}", until_there(&again));
        at = last.tokens.end;
    }
    out
}

/// The statements from there on that load and do not need one another.
fn run_at(item: &[Token<'_>], mut at: usize) -> Vec<Let> {
    let mut run: Vec<Let> = Vec::new();
    while let Some(of) = let_at(item, at) {
        let needs = |name: usize| item[of.function..of.tokens.end].contains(&item[name]);
        if run.iter().any(|before| needs(before.name)) {
            break;
        }
        at = next(item, of.tokens.end);
        run.push(of);
    }
    run
}

fn let_at(item: &[Token<'_>], at: usize) -> Option<Let> {
    let is = |i: usize, text: &str| item.get(i).is_some_and(|t| t.text() == text);
    let name = next(item, at + 1);
    let equals = next(item, name + 1);
    let function = next(item, equals + 1);
    if !is(at, "let") || !is(equals, "=") || look_once(item.get(function)?.text()).is_none() {
        return None;
    }
    let mut depth = 0usize;
    let close = (function + 1..item.len()).find(|i| {
        match item[*i].text() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    is(close + 1, ";").then_some(Let { tokens: at..close + 2, name, function })
}

/// The first token from there on that is no blank.
fn next(item: &[Token<'_>], at: usize) -> usize {
    (at..item.len()).find(|i| !matches!(item[*i], Token::Blank(_))).unwrap_or(item.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_loads_begin_together() {
        let text = "fn f(i: u32) {\n    let a = announced(c + (i));\n    let b = announced(d + (i));\n    \
                    let e = announced_vec4(b);\n    g(a);\n}";
        let found = together(text);
        assert!(found.contains("is_missing = false; var a = seen(c + (i)); var b = seen(d + (i)); for ("), "{found}");
        assert!(found.contains("is_missing = false; a = seen(c + (i)); b = seen(d + (i));  }"), "{found}");
        assert!(found.contains("let e = announced_vec4(b);"), "it needs b: {found}");
    }

    #[test]
    fn functions_that_only_load_look_at_all_their_values_again() {
        let loads = "const N: u32 = 4u;\nfn x(i: u32) -> vec4<f32> {\n    return announced_vec4(i);\n}\n\
                     fn four(i: u32) -> array<vec4<f32>, N> {\n    var values: array<vec4<f32>, N>;\n    \
                     values[0] = x(i);\n    values[1] = x(i + 1u);\n    return values;\n}";
        let found = together(loads);
        assert!(found.contains("fn x_seen(i: u32) -> vec4<f32> {\n    return seen_vec4(i);"), "{found}");
        assert!(found.contains("values[1] = x_seen(i + 1u);"), "{found}");
        assert!(found.contains("found = four_seen(i);"), "{found}");
        let stages = "fn stage(tid: u32) {\n    for (var i = tid; i < 8u; i += 4u) {\n        \
                      scratch[i] = bitcast<vec4<u32>>(announced_vec4(i));\n    }\n}";
        let found = together(stages);
        assert!(found.contains("is_missing = false;\n    stage_seen(tid);"), "{found}");
        assert!(found.contains("scratch[i] = bitcast<vec4<u32>>(seen_vec4(i));"), "{found}");
        for other in [
            "fn f(i: u32) {\n    scratch[i] = scratch[i] + bitcast<vec4<u32>>(announced_vec4(i));\n}",
            "fn f(i: u32) -> f32 {\n    workgroupBarrier();\n    return announced(i);\n}",
            "var<workgroup> w: array<f32, 4>;\nfn f(i: u32) {\n    w[i] = announced(i);\n}",
            "fn f(i: u32) {\n    buffer3[i] = announced(i);\n}",
            "fn f(i: u32) {\n    announce(i, announced(i));\n}",
            "fn f(i: u32) -> f32 {\n    return subgroupAdd(announced(i));\n}",
            "fn f(i: u32) -> f32 {\n    return 1.0;\n}",
        ] {
            assert!(!together(other).contains("_seen"), "{other}");
        }
    }
}
