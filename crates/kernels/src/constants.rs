//! Values of module-scope `const`s of type u32, as far as loops that are written out need them: literals, other constants,
//! `+ - * / %`, `min`, `max` and parentheses.

use std::collections::HashMap;

/// How deep constants may refer to one another.
const DEPTH: usize = 32;

/// Name and expression of a declaration.
pub(crate) fn declaration(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("const ")?.split_once(": u32 = ")?;
    Some((name, rest.split_once(';')?.0.trim()))
}

/// The value of an expression; `None` if it is not one of these, or has none in u32.
pub(crate) fn value(expression: &str, constants: &HashMap<&str, &str>) -> Option<u32> {
    evaluate(expression, constants, DEPTH)
}

fn evaluate(expression: &str, constants: &HashMap<&str, &str>, depth: usize) -> Option<u32> {
    let mut parser = Parser { rest: expression, constants, depth: depth.checked_sub(1)? };
    let value = parser.sum()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    constants: &'a HashMap<&'a str, &'a str>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Option<u32> {
        let mut left = self.product()?;
        loop {
            left = match () {
                () if self.takes("+") => left.checked_add(self.product()?)?,
                () if self.takes("-") => left.checked_sub(self.product()?)?,
                () => return Some(left),
            };
        }
    }

    fn product(&mut self) -> Option<u32> {
        let mut left = self.term()?;
        loop {
            left = match () {
                () if self.takes("*") => left.checked_mul(self.term()?)?,
                () if self.takes("/") => left.checked_div(self.term()?)?,
                () if self.takes("%") => left.checked_rem(self.term()?)?,
                () => return Some(left),
            };
        }
    }

    fn term(&mut self) -> Option<u32> {
        if self.takes("(") {
            let inner = self.sum()?;
            return self.takes(")").then_some(inner);
        }
        let word = self.word()?;
        match word {
            "min" | "max" => {
                let pair = self.takes("(").then(|| Some((self.sum()?, self.takes(",").then(|| self.sum())??)))??;
                self.takes(")").then(|| if word == "min" { pair.0.min(pair.1) } else { pair.0.max(pair.1) })
            }
            _ => match word.strip_suffix('u').unwrap_or(word).parse() {
                Ok(number) => Some(number),
                Err(_) => evaluate(self.constants.get(word)?, self.constants, self.depth),
            },
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn takes(&mut self, operator: &str) -> bool {
        let taken = self.rest.trim_start().strip_prefix(operator);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_constants_have_values() {
        let constants = HashMap::from([("K", "2560u"), ("QUADS", "K / 4u"), ("WG", "512u"), ("LOOP", "LOOP + 1u")]);
        let of = |expression| value(expression, &constants);
        assert_eq!(of("(QUADS + WG - 1u) / WG"), Some(2));
        assert_eq!(of("max(1u, min(7u * 2u, 20u % 6u))"), Some(2));
        assert_eq!(of("2u - 3u"), None);
        assert_eq!(of("4u / (QUADS - 640u)"), None);
        for unknown in ["LOOP", "N", "firstLeadingBit(0u)", "1u +", ""] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
