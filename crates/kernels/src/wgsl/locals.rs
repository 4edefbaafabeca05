//! Scopes of local names: parameters, and names that `let`, `var` and `const` declare, to the end of their block.

use super::lex::Token;
use std::collections::HashSet;

/// The local names while a text is read from its beginning.
#[derive(Default)]
pub(crate) struct Locals {
    scopes: Vec<Scope>,
    /// Declared in a statement that has not ended: its own right side still means the outer name.
    declaring: Option<String>,
    /// The token before was `let`, `var` or `const`; angle brackets may follow.
    after_keyword: bool,
    angle: usize,
}

#[derive(Default)]
struct Scope {
    names: HashSet<String>,
    /// It ends with the block that was opened in it.
    is_head: bool,
}

impl Locals {
    /// For an item of a module: a function's parameters are local in all of it, other items have no locals.
    pub(crate) fn of_item(item: &[Token<'_>]) -> Self {
        let open = item.iter().position(|t| t.is("("));
        let body = item.iter().position(|t| t.is("{"));
        match (item.iter().find(|t| matches!(t, Token::Name(_))), open, body) {
            (Some(Token::Name("fn")), Some(open), Some(body)) if open < body => {
                let close = item[..body].iter().rposition(|t| t.is(")")).unwrap_or(body);
                Locals::of_function(&item[open + 1..close])
            }
            _ => Locals::default(),
        }
    }

    /// For a function with these parameters.
    pub(crate) fn of_function(parameters: &[Token<'_>]) -> Self {
        let mut names = HashSet::new();
        for (i, token) in parameters.iter().enumerate() {
            if let Token::Name(name) = token
                && parameters.get(i + 1).is_some_and(|t| t.is(":"))
            {
                names.insert((*name).to_owned());
            }
        }
        Locals { scopes: vec![Scope { names, is_head: false }], ..Locals::default() }
    }

    /// Reads a token; whether it is a local name. Outside of functions nothing is.
    pub(crate) fn follow(&mut self, token: &Token<'_>) -> bool {
        if self.scopes.is_empty() {
            return false;
        }
        match token {
            Token::Name("let" | "var" | "const") => self.after_keyword = true,
            // What its head declares ends with its body.
            Token::Name("for") => self.scopes.push(Scope { is_head: true, ..Scope::default() }),
            Token::Name(name) if self.after_keyword && self.angle == 0 => {
                self.after_keyword = false;
                self.declaring = Some((*name).to_owned());
                return true;
            }
            Token::Name(name) => return self.scopes.iter().any(|scope| scope.names.contains(*name)),
            Token::Other("<") if self.after_keyword => self.angle += 1,
            Token::Other(">") if self.after_keyword => self.angle = self.angle.saturating_sub(1),
            Token::Other(";") => {
                if let (Some(name), Some(scope)) = (self.declaring.take(), self.scopes.last_mut()) {
                    scope.names.insert(name);
                }
            }
            Token::Other("{") => self.scopes.push(Scope::default()),
            Token::Other("}") => {
                self.scopes.pop();
                if self.scopes.last().is_some_and(|scope| scope.is_head) {
                    self.scopes.pop();
                }
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::lex::tokens;
    use super::*;

    /// The names of a text that are local, each with how often it is.
    fn local(text: &str) -> Vec<String> {
        let all = tokens(text);
        let mut locals = Locals::of_item(&all);
        let names = all.iter().filter(|t| locals.follow(t)).map(|t| t.text().to_owned());
        names.collect()
    }

    #[test]
    fn locals_end_with_their_blocks_and_begin_behind_their_statements() {
        assert_eq!(local("fn f(x: u32) -> f32 { return y[x]; }"), ["x", "x"]);
        assert_eq!(local("fn f() { let y = y[0]; g(y); }"), ["y", "y"]);
        assert_eq!(local("fn f() { { var x = 1u; } g(x); }"), ["x"]);
        assert_eq!(local("fn f() { for (var k = 0u; k < 2u; k++) { g(k); } g(k); }"), ["k", "k", "k", "k"]);
        assert_eq!(local("const x: u32 = 1u;"), [] as [&str; 0]);
    }
}
