//! Which module-scope items of a text the entry point reaches: the others are left out, so that a reader that a kernel does
//! not use costs nothing and needs nothing.

use super::lex::{Token, declaration, declared, items, tokens};
use super::locals::Locals;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

/// An item and what it refers to.
struct Item {
    lines: RangeInclusive<usize>,
    /// Names that are not local where they stand.
    refers_to: HashSet<String>,
    /// Whether it must be kept whatever refers to it: a directive.
    is_directive: bool,
}

/// What a text keeps.
pub(crate) struct Reachable {
    /// Which of the lines belong to an item that is reached.
    pub(crate) lines: Vec<bool>,
    /// Names that reached items refer to and that the text does not declare: keywords, built-ins, and what is missing.
    pub(crate) undeclared: BTreeSet<String>,
    /// The keyword that declares each name, reached or not.
    pub(crate) keywords: HashMap<String, String>,
}

/// Follows references from the items named `roots`.
pub(crate) fn reachable<'a>(lines: impl Iterator<Item = &'a str> + Clone, roots: &[&str]) -> Reachable {
    let count = lines.clone().count();
    let mut all: Vec<Item> = Vec::new();
    // A name that is declared twice keeps both: naga then says so.
    let mut of_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut keywords = HashMap::new();
    for (range, text) in spans(lines) {
        let of_text = tokens(&text);
        for item in items(&of_text) {
            let is_directive = matches!(item.first(), Some(Token::Name("enable" | "requires" | "diagnostic")));
            if let Some((keyword, name)) = declaration(&item) {
                keywords.insert(name.to_owned(), keyword.to_owned());
                of_name.entry(name.to_owned()).or_default().push(all.len());
            }
            all.push(Item { lines: range.clone(), refers_to: references(&item), is_directive });
        }
    }
    let mut keep: HashSet<usize> =
        all.iter().enumerate().filter(|(_, item)| item.is_directive).map(|(i, _)| i).collect();
    let mut next: Vec<usize> = roots.iter().filter_map(|name| of_name.get(*name)).flatten().copied().collect();
    let mut undeclared = BTreeSet::new();
    while let Some(i) = next.pop() {
        if keep.insert(i) {
            for name in &all[i].refers_to {
                match of_name.get(name) {
                    Some(others) => next.extend(others),
                    None => {
                        undeclared.insert(name.clone());
                    }
                }
            }
        }
    }
    let mut kept = vec![false; count];
    keep.iter().flat_map(|i| all[*i].lines.clone()).for_each(|line| kept[line] = true);
    Reachable { lines: kept, undeclared, keywords }
}

/// Runs of lines that hold whole items, each with its text.
fn spans<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(RangeInclusive<usize>, String)> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut open: Option<(usize, String)> = None;
    for (number, line) in lines.enumerate() {
        let mut ends = false;
        for token in tokens(line) {
            if matches!(token, Token::Blank(_)) {
                continue;
            }
            open.get_or_insert_with(|| (number, String::new()));
            match token.text() {
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            ends = depth == 0 && (token.is(";") || token.is("}"));
        }
        if let Some((_, text)) = &mut open {
            text.push_str(line);
            text.push('\n');
        }
        if ends && let Some((first, text)) = open.take() {
            found.push((first..=number, text));
        }
    }
    found
}

/// The names that an item refers to: no members, no locals, not its own.
pub(super) fn references(item: &[Token<'_>]) -> HashSet<String> {
    let own = declared(item);
    let members = members(item);
    let mut locals = Locals::of_item(item);
    let mut found = HashSet::new();
    for (i, token) in item.iter().enumerate() {
        let is_member = (i > 0 && item[i - 1].is(".")) || members.contains(&i);
        let is_local = locals.follow(token);
        if let Token::Name(name) = token
            && !is_member
            && !is_local
            && Some(*name) != own
        {
            found.insert((*name).to_owned());
        }
    }
    found
}

/// Where a struct declares its members: their names are not the module's.
pub(crate) fn members(item: &[Token<'_>]) -> HashSet<usize> {
    if item.first() != Some(&Token::Name("struct")) {
        return HashSet::new();
    }
    let named = |i: &usize| matches!(item[*i], Token::Name(_)) && item.get(i + 1).is_some_and(|t| t.is(":"));
    (0..item.len()).filter(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_declarations_are_left_out() {
        let text = "enable f16;\nconst A: u32 = B;\nconst B: u32 = 2u;\nconst C: u32 = 3u;\nfn unused() {\n    g();\n}\n\
                    struct S {\n    C: u32,\n}\nfn used(s: S) -> u32 {\n    let C = A;\n    return s.C + C + h();\n}\n\
                    @compute @workgroup_size(1)\nfn main() {\n    used(S(1u));\n}";
        let found = reachable(text.lines(), &["main"]);
        let kept: Vec<&str> = text.lines().zip(&found.lines).filter(|(_, kept)| **kept).map(|(line, _)| line).collect();
        assert!(kept.contains(&"enable f16;") && kept.contains(&"const B: u32 = 2u;") && kept.contains(&"struct S {"));
        assert!(!kept.contains(&"const C: u32 = 3u;") && !kept.contains(&"fn unused() {"), "{kept:?}");
        assert!(found.undeclared.contains("h") && !found.undeclared.contains("g"), "{:?}", found.undeclared);
    }
}
