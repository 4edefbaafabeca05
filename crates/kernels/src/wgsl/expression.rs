//! Expressions of constants: bounds of unrolled loops, rules, grids. Literals, names, `+ - * / %`, comparisons, `&& ||
//! !`, `min`, `max`, `select`, `ceil_div` and parentheses, over non-negative integers and booleans.

use super::lex::{Token, tokens};
use std::fmt;

/// How deep constants may refer to one another, and expressions nest.
const DEPTH: usize = 64;

/// Most literals and names of an expression: chains of operators nest, too.
const MOST_TERMS: usize = 512;

/// What an expression is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Bool(bool),
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Value(Value),
    Name(String),
    Call(Function, Vec<Expression>),
    Not(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// The functions that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Min,
    Max,
    Select,
    CeilDiv,
}

/// The operators with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// Nothing of that name is known.
    Unknown(String),
    /// Below 0, above 64 bits, or divided by 0.
    OutOfRange,
    /// A number where a truth value belongs, or the other way round.
    Type,
    /// Constants that refer to themselves.
    Depth,
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoValue::Unknown(name) => write!(f, "'{name}' has no value here"),
            NoValue::OutOfRange => f.write_str("a value is below 0, too large, or divided by 0"),
            NoValue::Type => f.write_str("numbers and truth values are mixed"),
            NoValue::Depth => f.write_str("constants refer to themselves"),
        }
    }
}

/// Where names get their values.
pub(crate) trait Scope {
    /// The expression or value of a name.
    fn lookup(&self, name: &str) -> Option<Lookup<'_>>;

    /// Is told what a name whose expression was looked up is worth.
    fn found(&self, _name: &str, _value: Value) {}
}

/// What a name stands for.
pub(crate) enum Lookup<'a> {
    Value(Value),
    Expression(&'a Expression),
}

impl Expression {
    /// Parses all of a text.
    pub(crate) fn parse(text: &str) -> Option<Expression> {
        let (expression, rest) = Expression::parse_prefix(text)?;
        rest.trim().is_empty().then_some(expression)
    }

    /// Parses an expression and returns what follows it.
    pub(crate) fn parse_prefix(text: &str) -> Option<(Expression, &str)> {
        let all = tokens(text);
        let mut parser = Parser { tokens: &all, depth: 0, terms: 0 };
        let expression = parser.binary(0)?;
        let left: usize = parser.tokens.iter().map(|t| t.text().len()).sum();
        // Comments, which the lexer drops, are part of what follows.
        let end = text.find("//").unwrap_or(text.len());
        Some((expression, text.get(end.checked_sub(left)?..)?))
    }

    /// Its value.
    pub(crate) fn value(&self, scope: &dyn Scope) -> Result<Value, NoValue> {
        self.evaluate(scope, DEPTH)
    }

    /// Every name that it refers to.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Expression::Value(_) => Vec::new(),
            Expression::Name(name) => vec![name],
            Expression::Not(inner) => inner.names(),
            Expression::Call(_, of) => of.iter().flat_map(Expression::names).collect(),
            Expression::Binary(_, a, b) => [a.names(), b.names()].concat(),
        }
    }

    /// Its value as a number.
    pub(crate) fn number(&self, scope: &dyn Scope) -> Result<u64, NoValue> {
        match self.value(scope)? {
            Value::Number(n) => Ok(n),
            Value::Bool(_) => Err(NoValue::Type),
        }
    }

    /// Its value as a truth value.
    pub(crate) fn truth(&self, scope: &dyn Scope) -> Result<bool, NoValue> {
        match self.value(scope)? {
            Value::Bool(b) => Ok(b),
            Value::Number(_) => Err(NoValue::Type),
        }
    }

    fn evaluate(&self, scope: &dyn Scope, depth: usize) -> Result<Value, NoValue> {
        let depth = depth.checked_sub(1).ok_or(NoValue::Depth)?;
        let number = |e: &Expression| match e.evaluate(scope, depth)? {
            Value::Number(n) => Ok(n),
            Value::Bool(_) => Err(NoValue::Type),
        };
        let truth = |e: &Expression| match e.evaluate(scope, depth)? {
            Value::Bool(b) => Ok(b),
            Value::Number(_) => Err(NoValue::Type),
        };
        match self {
            Expression::Value(value) => Ok(*value),
            Expression::Name(name) => match scope.lookup(name) {
                Some(Lookup::Value(value)) => Ok(value),
                Some(Lookup::Expression(expression)) => {
                    let value = expression.evaluate(scope, depth)?;
                    scope.found(name, value);
                    Ok(value)
                }
                None => Err(NoValue::Unknown(name.clone())),
            },
            Expression::Not(inner) => Ok(Value::Bool(!truth(inner)?)),
            Expression::Call(Function::Select, of) => match truth(&of[2])? {
                true => of[1].evaluate(scope, depth),
                false => of[0].evaluate(scope, depth),
            },
            Expression::Call(function, of) => {
                let (a, b) = (number(&of[0])?, number(&of[1])?);
                Ok(Value::Number(match function {
                    Function::Min => a.min(b),
                    Function::Max => a.max(b),
                    Function::CeilDiv | Function::Select if b == 0 => return Err(NoValue::OutOfRange),
                    Function::CeilDiv | Function::Select => a.div_ceil(b),
                }))
            }
            // The right side counts only where the left one does not decide.
            Expression::Binary(Operator::Or, a, b) => Ok(Value::Bool(truth(a)? || truth(b)?)),
            Expression::Binary(Operator::And, a, b) => Ok(Value::Bool(truth(a)? && truth(b)?)),
            Expression::Binary(operator, a, b) => {
                binary(*operator, a.evaluate(scope, depth)?, b.evaluate(scope, depth)?)
            }
        }
    }
}

fn binary(operator: Operator, a: Value, b: Value) -> Result<Value, NoValue> {
    use Operator as O;
    let (a, b) = match (operator, a, b) {
        (O::Equal, a, b) if std::mem::discriminant(&a) == std::mem::discriminant(&b) => return Ok(Value::Bool(a == b)),
        (O::NotEqual, a, b) if std::mem::discriminant(&a) == std::mem::discriminant(&b) => {
            return Ok(Value::Bool(a != b));
        }
        (_, Value::Number(a), Value::Number(b)) => (a, b),
        _ => return Err(NoValue::Type),
    };
    let number = match operator {
        O::Less => return Ok(Value::Bool(a < b)),
        O::LessOrEqual => return Ok(Value::Bool(a <= b)),
        O::Greater => return Ok(Value::Bool(a > b)),
        O::GreaterOrEqual => return Ok(Value::Bool(a >= b)),
        O::Add => a.checked_add(b),
        O::Subtract => a.checked_sub(b),
        O::Multiply => a.checked_mul(b),
        O::Divide => a.checked_div(b),
        O::Remainder => a.checked_rem(b),
        O::Or | O::And | O::Equal | O::NotEqual => None,
    };
    number.map(Value::Number).ok_or(NoValue::OutOfRange)
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    depth: usize,
    terms: usize,
}

impl Parser<'_, '_> {
    /// Operators of this precedence and tighter ones, from the left.
    fn binary(&mut self, precedence: usize) -> Option<Expression> {
        const LEVELS: [&[(&str, Operator)]; 5] = [
            &[("||", Operator::Or)],
            &[("&&", Operator::And)],
            // The longer one first: `<=` begins as `<` does.
            &[
                ("==", Operator::Equal),
                ("!=", Operator::NotEqual),
                ("<=", Operator::LessOrEqual),
                (">=", Operator::GreaterOrEqual),
                ("<", Operator::Less),
                (">", Operator::Greater),
            ],
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
        ];
        let Some(operators) = LEVELS.get(precedence) else { return self.term() };
        let mut left = self.binary(precedence + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.takes(text)) {
            let right = self.binary(precedence + 1)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn term(&mut self) -> Option<Expression> {
        self.depth += 1;
        self.terms += 1;
        let term = (self.depth <= DEPTH && self.terms <= MOST_TERMS).then(|| self.unnested_term())?;
        self.depth -= 1;
        term
    }

    fn unnested_term(&mut self) -> Option<Expression> {
        if self.takes("!") {
            return Some(Expression::Not(Box::new(self.term()?)));
        }
        if self.takes("(") {
            let inner = self.binary(0)?;
            return self.takes(")").then_some(inner);
        }
        self.skip_blanks();
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        match *first {
            Token::Name("true") => Some(Expression::Value(Value::Bool(true))),
            Token::Name("false") => Some(Expression::Value(Value::Bool(false))),
            Token::Name(name) => {
                let function = match name {
                    "min" => Function::Min,
                    "max" => Function::Max,
                    "select" => Function::Select,
                    "ceil_div" => Function::CeilDiv,
                    _ => return Some(Expression::Name(name.to_owned())),
                };
                let count = if function == Function::Select { 3 } else { 2 };
                let mut of = Vec::new();
                for i in 0..count {
                    if !self.takes(if i == 0 { "(" } else { "," }) {
                        return None;
                    }
                    of.push(self.binary(0)?);
                }
                self.takes(")").then_some(Expression::Call(function, of))
            }
            Token::Other(number) => {
                let number = number.strip_suffix('u').unwrap_or(number).parse().ok()?;
                Some(Expression::Value(Value::Number(number)))
            }
            Token::Blank(_) => None,
        }
    }

    fn skip_blanks(&mut self) {
        while let Some((Token::Blank(_), rest)) = self.tokens.split_first() {
            self.tokens = rest;
        }
    }

    /// Takes an operator, which comes one character a token.
    fn takes(&mut self, operator: &str) -> bool {
        let before = self.tokens;
        self.skip_blanks();
        for (i, c) in operator.char_indices() {
            match self.tokens.split_first() {
                Some((Token::Other(text), rest)) if *text == &operator[i..i + c.len_utf8()] => self.tokens = rest,
                _ => {
                    self.tokens = before;
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Names(HashMap<&'static str, Expression>);

    impl Scope for Names {
        fn lookup(&self, name: &str) -> Option<Lookup<'_>> {
            self.0.get(name).map(Lookup::Expression)
        }
    }

    fn scope() -> Names {
        let all = [("K", "2560u"), ("VEC4S", "K / 4u"), ("WG", "512u"), ("LOOP", "LOOP + 1u"), ("ADD", "false")];
        Names(all.into_iter().map(|(name, text)| (name, Expression::parse(text).unwrap())).collect())
    }

    #[test]
    fn expressions_of_constants_have_values() {
        let scope = scope();
        let of = |text: &str| Expression::parse(text).unwrap().number(&scope);
        assert_eq!(of("(VEC4S + WG - 1u) / WG"), Ok(2));
        assert_eq!(of("max(1u, min(7u * 2u, 20u % 6u))"), Ok(2));
        assert_eq!(of("ceil_div(K, 1000) * select(1u, 2u, K > 9u)"), Ok(6));
        assert_eq!(of("2u - 3u"), Err(NoValue::OutOfRange));
        assert_eq!(of("4u / (VEC4S - 640u)"), Err(NoValue::OutOfRange));
        assert_eq!(of("LOOP"), Err(NoValue::Depth));
        assert_eq!(of("N"), Err(NoValue::Unknown("N".into())));
        assert_eq!(of("1 + ADD"), Err(NoValue::Type));
        for wrong in ["firstLeadingBit(0u)", "1u +", "", "min(1)", "(1"] {
            assert_eq!(Expression::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_expression_lists_the_names_that_it_refers_to() {
        let names = |text: &str| Expression::parse(text).unwrap().names().join(" ");
        assert_eq!(names("!(A < 2u * B) || select(C, min(D, 1u), true) == A"), "A B C D A");
    }

    #[test]
    fn rules_have_truth_values() {
        let scope = scope();
        let of = |text: &str| Expression::parse(text).unwrap().truth(&scope);
        assert_eq!(of("K % 32u == 0u && WG <= 1024u"), Ok(true));
        assert_eq!(of("!(K < WG) || 1u / 0u == 1u"), Ok(true));
        assert_eq!(of("WG > 512u || ADD"), Ok(false));
        assert_eq!(of("ADD == false && K != 1u && K >= 2560u"), Ok(true));
        assert_eq!(of("K"), Err(NoValue::Type));
    }

    #[test]
    fn the_text_behind_an_expression_is_its_reason() {
        let (expression, reason) = Expression::parse_prefix("WG * 2u <= 10u      register pressure").unwrap();
        assert_eq!((expression.truth(&scope()), reason.trim()), (Ok(false), "register pressure"));
        let deep = "(".repeat(500) + "1" + &")".repeat(500);
        assert_eq!(Expression::parse(&deep), None);
        assert_eq!(Expression::parse(&("1u + ".repeat(100_000) + "1u")), None);
    }
}
